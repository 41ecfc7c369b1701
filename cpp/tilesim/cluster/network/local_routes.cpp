#include "tilesim/cluster/network/local_routes.hpp"

#include "tilesim/base/index.hpp"

namespace tilesim::cluster {

namespace {

int size_of(const Dimension& dimension) { return static_cast<int>(dimension.size()); }
int axes_of(const Dimension& dimension) { return static_cast<int>(dimension.sizes.size()); }

void add(std::vector<Link>& links, int source, int target, std::int64_t rate, std::int64_t latency, int lanes = 1,
         bool hashed = false) {
  links.push_back({source, target, rate, latency, lanes, hashed && lanes > 1});
}

/// Links of a grid: (c * axes + a) * 2 leads from member c to the next one on axis a, the following one back.
void grid_links(const Dimension& dimension, const std::vector<int>& members, std::vector<Link>& links) {
  for (int c = 0; c < size_of(dimension); ++c) {
    int stride = 1;
    for (const std::int64_t wide : dimension.sizes) {
      const int size = static_cast<int>(wide), own = c / stride % size;
      const bool wraps = dimension.kind != DimensionKind::mesh;
      const int up = own + 1 < size ? c + stride : c - (size - 1) * stride;
      const int down = own > 0 ? c - stride : c + (size - 1) * stride;
      const bool has_up = size > 1 && (own + 1 < size || wraps);
      // A circle of two has one link per direction.
      const bool has_down = size > 1 && dimension.both_ways && (own > 0 || wraps) && !(size == 2 && wraps);
      add(links, members[at(c)], has_up ? members[at(up)] : members[at(c)], has_up ? dimension.bytes_per_second : 0,
          dimension.latency);
      add(links, members[at(c)], has_down ? members[at(down)] : members[at(c)],
          has_down ? dimension.bytes_per_second : 0, dimension.latency);
      stride *= size;
    }
  }
}

void grid_route(const Dimension& dimension, int from, int to, int base, std::vector<int>& links) {
  int here = from, stride = 1;
  for (int axis = 0; axis < axes_of(dimension); ++axis) {
    const int size = static_cast<int>(dimension.sizes[at(axis)]);
    const int start = here / stride % size, goal = to / stride % size;
    const int ahead = (goal - start + size) % size, behind = (size - ahead) % size;
    const bool wraps = dimension.kind != DimensionKind::mesh;
    const bool up = wraps ? !dimension.both_ways || ahead <= behind : goal > start;
    for (int own = start; own != goal;) {
      links.push_back(base + (here * axes_of(dimension) + axis) * 2 + (up ? 0 : 1));
      const int next = up ? (own + 1) % size : (own + size - 1) % size;
      here += (next - own) * stride;
      own = next;
    }
    stride *= size;
  }
}

int groups(std::int64_t size, std::int64_t members) { return static_cast<int>((size + members - 1) / members); }

/// Links in order: ports up, ports down, leaf trunks up and down, pod trunks up and down.
void tree_links(const Dimension& dimension, const std::vector<int>& members, int& next, std::vector<Link>& links) {
  const int size = size_of(dimension), leaves = groups(size, dimension.leaf);
  const int pods = dimension.pod > 0 ? groups(size, dimension.pod) : 0, leaf_node = next, pod_node = next + leaves;
  const int top = pod_node + pods;
  next = top + 1;
  const auto leaf = [&](int c) { return leaf_node + static_cast<int>(c / dimension.leaf); };
  for (int c = 0; c < size; ++c) add(links, members[at(c)], leaf(c), dimension.bytes_per_second, dimension.latency);
  for (int c = 0; c < size; ++c) add(links, leaf(c), members[at(c)], dimension.bytes_per_second, 0);
  const auto lanes = [&](std::int64_t below) { return static_cast<int>(dimension.trunks(below)); };
  for (int side = 0; side < 2; ++side) {
    for (int i = 0; i < leaves; ++i) {
      const int above = pods > 0 ? pod_node + static_cast<int>(i * dimension.leaf / dimension.pod) : top;
      add(links, side == 0 ? leaf_node + i : above, side == 0 ? above : leaf_node + i, dimension.bytes_per_second,
          side == 0 ? dimension.trunk_latency : 0, lanes(dimension.leaf), dimension.hashed);
    }
  }
  for (int side = 0; side < 2; ++side)
    for (int i = 0; i < pods; ++i)
      add(links, side == 0 ? pod_node + i : top, side == 0 ? top : pod_node + i, dimension.bytes_per_second,
          side == 0 ? dimension.trunk_latency : 0, lanes(dimension.trunks(dimension.pod)), dimension.hashed);
}

void tree_route(const Dimension& dimension, int from, int to, int base, std::vector<int>& links) {
  const int size = size_of(dimension), leaves = groups(size, dimension.leaf);
  const int pods = dimension.pod > 0 ? groups(size, dimension.pod) : 0, trunk = base + 2 * size;
  const int a = static_cast<int>(from / dimension.leaf), b = static_cast<int>(to / dimension.leaf);
  links.push_back(base + from);
  if (a != b) {
    links.push_back(trunk + a);
    if (pods > 0 && from / dimension.pod != to / dimension.pod) {
      links.push_back(trunk + 2 * leaves + static_cast<int>(from / dimension.pod));
      links.push_back(trunk + 2 * leaves + pods + static_cast<int>(to / dimension.pod));
    }
    links.push_back(trunk + leaves + b);
  }
  links.push_back(base + size + to);
}

/// Links in order: hosts up, hosts down, routers within each group, groups; group i reaches j from its router j mod a.
void dragonfly_links(const Dimension& dimension, const std::vector<int>& members, int& next, std::vector<Link>& links) {
  const int hosts = static_cast<int>(dimension.sizes[0]), routers = static_cast<int>(dimension.sizes[1]);
  const int count = static_cast<int>(dimension.sizes[2]), size = size_of(dimension), first = next;
  next += routers * count;
  const std::int64_t rate = dimension.bytes_per_second, latency = dimension.latency;
  for (int c = 0; c < size; ++c) add(links, members[at(c)], first + c / hosts, rate, latency);
  for (int c = 0; c < size; ++c) add(links, first + c / hosts, members[at(c)], rate, latency);
  for (int g = 0; g < count; ++g)
    for (int i = 0; i < routers; ++i)
      for (int j = 0; j < routers; ++j)
        add(links, first + g * routers + i, first + g * routers + j, i == j ? 0 : rate, latency);
  for (int g = 0; g < count; ++g)
    for (int h = 0; h < count; ++h)
      add(links, first + g * routers + h % routers, first + h * routers + g % routers,
          g == h ? 0 : dimension.global_bytes_per_second, latency);
}

void dragonfly_route(const Dimension& dimension, int from, int to, int base, std::vector<int>& links) {
  const int hosts = static_cast<int>(dimension.sizes[0]), routers = static_cast<int>(dimension.sizes[1]);
  const int count = static_cast<int>(dimension.sizes[2]), size = size_of(dimension);
  const int local = base + 2 * size, global = local + count * routers * routers;
  const int g = from / hosts / routers, h = to / hosts / routers;
  int router = from / hosts % routers;
  const int last = to / hosts % routers;
  const auto walk = [&](int group, int goal) {
    if (router != goal) links.push_back(local + (group * routers + router) * routers + goal);
    router = goal;
  };
  links.push_back(base + from);
  if (g != h) {
    walk(g, h % routers);
    links.push_back(global + g * count + h);
    router = g % routers;
  }
  walk(h, last);
  links.push_back(base + size + to);
}

}  // namespace

int links_of_instance(const Dimension& dimension) {
  const int size = size_of(dimension);
  switch (dimension.kind) {
    case DimensionKind::full:
      if (size > 16384) throw UserError({"a full network is too wide", dimension.name, {}, "16384", "a switch"});
      return size * size;
    case DimensionKind::switched:
      return 2 * size;
    case DimensionKind::fat_tree:
      return 2 * size + 2 * groups(size, dimension.leaf) + (dimension.pod > 0 ? 2 * groups(size, dimension.pod) : 0);
    case DimensionKind::dragonfly: {
      const auto routers = dimension.sizes[1], count = dimension.sizes[2];
      return static_cast<int>(2 * size + count * routers * routers + count * count);
    }
    default:
      return size * axes_of(dimension) * 2;
  }
}

void append_links(const Dimension& dimension, const std::vector<int>& members, int& next, std::vector<Link>& links) {
  const int size = size_of(dimension);
  if (dimension.grid()) return grid_links(dimension, members, links);
  if (dimension.kind == DimensionKind::fat_tree) return tree_links(dimension, members, next, links);
  if (dimension.kind == DimensionKind::dragonfly) return dragonfly_links(dimension, members, next, links);
  if (dimension.kind == DimensionKind::full) {
    for (int i = 0; i < size; ++i)
      for (int j = 0; j < size; ++j)
        add(links, members[at(i)], members[at(j)], i == j ? 0 : dimension.bytes_per_second, dimension.latency);
    return;
  }
  const int node = next++;
  for (int i = 0; i < size; ++i) add(links, members[at(i)], node, dimension.bytes_per_second, dimension.latency);
  for (int i = 0; i < size; ++i) add(links, node, members[at(i)], dimension.bytes_per_second, 0);
}

void append_route(const Dimension& dimension, int from, int to, int base, std::vector<int>& links) {
  const int size = size_of(dimension);
  if (dimension.grid()) return grid_route(dimension, from, to, base, links);
  if (dimension.kind == DimensionKind::fat_tree) return tree_route(dimension, from, to, base, links);
  if (dimension.kind == DimensionKind::dragonfly) return dragonfly_route(dimension, from, to, base, links);
  if (dimension.kind == DimensionKind::full) {
    links.push_back(base + from * size + to);
    return;
  }
  links.push_back(base + from);
  links.push_back(base + size + to);
}

int class_of_link(const Dimension& dimension, int local, bool by_xor) {
  const int size = size_of(dimension);
  if (dimension.grid()) return local % (axes_of(dimension) * 2);
  if (dimension.kind == DimensionKind::full) {
    const int from = local / size, to = local % size;
    return by_xor ? from ^ to : (to - from + size) % size;
  }
  return local / size;  // up and down links of a switch or of a tree with one leaf
}

}  // namespace tilesim::cluster
