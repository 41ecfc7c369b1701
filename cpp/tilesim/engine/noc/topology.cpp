#include "tilesim/engine/noc/topology.hpp"

#include <cstddef>

namespace tilesim::engine::noc {

namespace {

/// Product of the extents. Throws UserError if it exceeds the size of the tables.
int product(const std::vector<int>& extents, int times, int low, const char* what) {
  std::int64_t count = times;
  if (extents.empty() || extents.size() > 8)
    throw UserError({"a network has 1 to 8 dimensions", what, std::to_string(extents.size()), "1 ... 8", {}});
  for (const int extent : extents) {
    if (extent < low)
      throw UserError(
          {"a dimension is too small", what, std::to_string(extent), "at least " + std::to_string(low), {}});
    count *= extent;
    if (count > most_nodes)
      throw UserError({"the network is too large", what, std::to_string(count) + " nodes", "at most 4096", {}});
  }
  return static_cast<int>(count);
}

void positive(int value, const char* what) {
  if (value < 1 || value > 4096)
    throw UserError({std::string(what) + " is out of range", "network", std::to_string(value), "1 ... 4096", {}});
}

std::string sizes(const std::vector<int>& extents) {
  std::string text;
  for (const int extent : extents) text += (text.empty() ? "" : "x") + std::to_string(extent);
  return text;
}

/// Routers, ports and links of a grid. `wraps`: every dimension is a ring.
Topology grid(const std::vector<int>& extents, int concentration, int link_latency, bool wraps) {
  Topology net;
  const int dimensions = static_cast<int>(extents.size());
  const int count = product(extents, concentration, wraps ? 2 : 1, "network") / concentration;
  const int ports = 2 * dimensions + concentration;
  net.routing = "dimension_order";
  net.wraps = wraps;
  net.routers.assign(static_cast<std::size_t>(count), {ports, ports});
  int stride = 1;
  for (int d = 0; d < dimensions; ++d) {
    const int k = extents[static_cast<std::size_t>(d)];
    for (int r = 0; r < count; ++r) {
      const int at = r / stride % k;
      if (wraps || at + 1 < k) {
        const int next = r + ((at + 1) % k - at) * stride;
        net.links.push_back({r, 2 * d, next, 2 * d + 1, link_latency, 1, 1, 0});
        net.links.push_back({next, 2 * d + 1, r, 2 * d, link_latency, 1, 1, 0});
      }
    }
    stride *= k;
  }
  for (int n = 0; n < count * concentration; ++n) {
    const int port = 2 * dimensions + n % concentration;
    net.nodes.push_back({n / concentration, port, port});
  }
  return net;
}

/// Sets dimension-ordered routes: lowest dimension first, the node's port last.
void route_grid(Topology& net, const std::vector<int>& extents) {
  net.hops.resize(net.routers.size() * net.nodes.size());
  for (std::size_t r = 0; r < net.routers.size(); ++r) {
    for (std::size_t n = 0; n < net.nodes.size(); ++n) {
      auto from = static_cast<int>(r), to = net.nodes[n].router;
      Hop hop{static_cast<std::uint16_t>(net.nodes[n].output), Hop::no_choice, all_vcs};
      for (std::size_t d = 0; d < extents.size(); ++d, from /= extents[d - 1], to /= extents[d - 1]) {
        const int here = from % extents[d], there = to % extents[d];
        if (here == there) continue;
        hop.port = static_cast<std::uint16_t>(2 * d + (!net.wraps && here > there ? 1 : 0));
        if (net.wraps) hop.shift = static_cast<std::uint8_t>(2 * d), hop.group = lower_vcs;
        break;
      }
      net.hop(r, n) = hop;
    }
  }
}

}  // namespace

Topology mesh(const std::vector<int>& extents, int concentration, int link_latency) {
  positive(concentration, "concentration");
  positive(link_latency, "link latency");
  Topology net = grid(extents, concentration, link_latency, false);
  route_grid(net, extents);
  net.name = (concentration == 1 ? "mesh_" : "cmesh_") + sizes(extents);
  if (concentration == 1) {
    net.extents = extents;
  } else {
    net.name += "x" + std::to_string(concentration);
    net.extents = {static_cast<int>(net.nodes.size())};
  }
  return net;
}

Topology torus(const std::vector<int>& extents, int link_latency) {
  positive(link_latency, "link latency");
  Topology net = grid(extents, 1, link_latency, true);
  net.extents = extents;
  route_grid(net, extents);
  net.name = (extents.size() == 1 ? "ring_" : "torus_") + sizes(extents);
  return net;
}

Topology crossbar(int nodes) {
  product({nodes}, 1, 1, "crossbar");
  if (nodes > most_ports)
    throw UserError({"the crossbar is too large", "network", std::to_string(nodes), "1 ... 1024", {}});
  Topology net;
  net.name = "crossbar_" + std::to_string(nodes);
  net.routing = "destination_tag";
  net.extents = {nodes};
  net.routers.assign(1, {nodes, nodes});
  for (int n = 0; n < nodes; ++n) {
    net.nodes.push_back({0, n, n});
    net.hops.push_back({static_cast<std::uint16_t>(n), Hop::no_choice, all_vcs});
  }
  return net;
}

Topology tree(int arity, int levels, int link_latency) {
  positive(link_latency, "link latency");
  if (levels < 1 || levels > 12)
    throw UserError({"levels of a tree are out of range", "network", std::to_string(levels), "1 ... 12", {}});
  if (arity < 2) throw UserError({"a tree needs two branches", "network", std::to_string(arity), "at least 2", {}});
  for (std::int64_t level = 0, nodes = 1; level < levels; ++level)
    if ((nodes *= arity) > most_nodes)
      throw UserError({"the network is too large", "network", std::to_string(nodes) + " nodes", "at most 4096", {}});
  Topology net;
  net.name = "tree_" + std::to_string(arity) + "x" + std::to_string(levels);
  net.routing = "destination_tag";
  std::vector<int> first{0};  // first router of each level
  int width = 1;
  for (int level = 0; level < levels; ++level, width *= arity) {
    for (int i = 0; i < width; ++i) {
      const int router = first.back() + i, parent = level == 0 ? -1 : first[first.size() - 2] + i / arity;
      net.routers.push_back({arity + (level > 0 ? 1 : 0), arity + (level > 0 ? 1 : 0)});
      if (parent < 0) continue;
      net.links.push_back({parent, i % arity, router, arity, link_latency, 1, 1, 0});
      net.links.push_back({router, arity, parent, i % arity, link_latency, 1, 1, 0});
    }
    first.push_back(first.back() + width);
  }
  net.extents = {width};
  for (int n = 0; n < width; ++n)
    net.nodes.push_back({first[static_cast<std::size_t>(levels) - 1] + n / arity, n % arity, n % arity});
  net.hops.resize(net.routers.size() * net.nodes.size());
  int below = width;  // nodes below a router of this level
  for (int level = 0; level < levels; ++level, below /= arity)
    for (int r = first[static_cast<std::size_t>(level)]; r < first[static_cast<std::size_t>(level) + 1]; ++r)
      for (int n = 0; n < width; ++n) {
        const int offset = n - (r - first[static_cast<std::size_t>(level)]) * below;
        const bool down = offset >= 0 && offset < below;
        net.hop(static_cast<std::size_t>(r), static_cast<std::size_t>(n)) = {
            static_cast<std::uint16_t>(down ? offset / (below / arity) : arity), Hop::no_choice, all_vcs};
      }
  return net;
}

}  // namespace tilesim::engine::noc
