#include "tilesim/cluster/collective/shape.hpp"

#include <algorithm>
#include <set>

#include "tilesim/base/index.hpp"

namespace tilesim::cluster {

namespace {

Trunks trunks_of(const Dimension& dimension, const std::vector<int>& members) {
  Trunks trunks;
  const auto groups = [&](std::int64_t size, std::vector<int>& out) {
    if (size == 0 || members.front() / size == members.back() / size) return;
    for (const int member : members) out.push_back(static_cast<int>(member / size));
  };
  groups(dimension.leaf, trunks.leaf);
  groups(dimension.pod, trunks.pod);
  trunks.leaf_lanes = static_cast<int>(dimension.trunks(dimension.leaf));
  trunks.pod_lanes = static_cast<int>(dimension.trunks(dimension.trunks(dimension.pod)));
  trunks.latency = dimension.trunk_latency;
  return trunks;
}

/// The axis of a dimension without separate axes: one port per device.
Axis port_axis(const Network& network, int number, const std::vector<int>& members, int inside) {
  const Dimension& dimension = network.dimensions()[at(number)];
  Axis axis{
      AxisKind::port, static_cast<int>(members.size()), dimension.bytes_per_second, dimension.latency, true, true};
  if (dimension.kind == DimensionKind::full) axis.kind = AxisKind::full;
  if (dimension.kind == DimensionKind::fat_tree) {
    axis.trunks = trunks_of(dimension, members);
  }
  if (dimension.kind == DimensionKind::dragonfly) {
    // Latency: two links between hosts of a router, three within a group of routers, up to five between groups.
    const auto hosts = static_cast<int>(dimension.sizes[0]);
    const int group = hosts * static_cast<int>(dimension.sizes[1]);
    axis.exact = members.front() / hosts == members.back() / hosts;
    axis.latency *= axis.exact ? 2 : members.front() / group == members.back() / group ? 3 : 5;
    if (members.front() / hosts != members.back() / hosts) {
      for (const int member : members) axis.routers.router.push_back(member / hosts);
      axis.routers.per_group = static_cast<int>(dimension.sizes[1]);
      axis.routers.groups = static_cast<int>(dimension.sizes[2]);
      axis.routers.global =
          static_cast<double>(dimension.bytes_per_second) / static_cast<double>(dimension.global_bytes_per_second);
    }
  }
  const int stride = network.stride(number);
  const int rails = dimension.rails > 0 ? static_cast<int>(dimension.rails) : stride;
  const int sharers = rails < inside ? (inside + rails - 1) / rails : 1;
  if (sharers > 1) axis.exact = false;
  axis.bytes_per_second = std::max<std::int64_t>(1, axis.bytes_per_second / sharers);
  return axis;
}

std::optional<Axis> grid_axis(const Dimension& dimension, int size, const std::vector<int>& members) {
  const int count = static_cast<int>(members.size()), step = members[1] - members[0];
  for (int i = 1; i < count; ++i)
    if (members[at(i)] - members[at(i - 1)] != step) return std::nullopt;
  const bool closed = dimension.kind != DimensionKind::mesh && step * count == size;
  if (!closed && !dimension.both_ways) return std::nullopt;
  return Axis{closed ? AxisKind::circle : AxisKind::line,
              count,
              dimension.bytes_per_second,
              dimension.latency * step,
              dimension.both_ways,
              closed};
}

}  // namespace

std::optional<std::vector<Axis>> axes_of(const Network& network, const std::vector<int>& places) {
  if (network.dimensions().empty()) return std::nullopt;
  std::vector<Axis> axes;
  std::int64_t product = 1;
  for (int number = 0; number < static_cast<int>(network.dimensions().size()); ++number) {
    const Dimension& dimension = network.dimensions()[at(number)];
    int stride = network.stride(number);
    std::vector<std::int64_t> sizes = dimension.sizes;
    if (!dimension.grid()) sizes = {dimension.size()};
    const std::int64_t inside = product;  // number of members in the previous dimensions
    for (const std::int64_t wide : sizes) {
      const int size = static_cast<int>(wide);
      std::set<int> seen;
      for (const int place : places) seen.insert(place / stride % size);
      stride *= size;
      if (seen.size() == 1) continue;
      const std::vector<int> members(seen.begin(), seen.end());
      if (dimension.grid()) {
        auto axis = grid_axis(dimension, size, members);
        if (!axis) return std::nullopt;
        if (dimension.rails > 0 && inside > dimension.rails) {  // several devices share the links of one position
          axis->bytes_per_second = std::max<std::int64_t>(1, axis->bytes_per_second * dimension.rails / inside);
          axis->exact = false;
        }
        axes.push_back(*axis);
      } else {
        axes.push_back(port_axis(network, number, members, static_cast<int>(inside)));
      }
      axes.back().dimension = number;
      product *= static_cast<std::int64_t>(members.size());
    }
  }
  if (product != static_cast<std::int64_t>(places.size())) return std::nullopt;
  return axes;
}

}  // namespace tilesim::cluster
