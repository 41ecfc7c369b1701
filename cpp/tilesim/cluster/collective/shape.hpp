// The axes, inner first, that the devices of a collective form. Closed forms take them as their input.
#pragma once

#include <optional>
#include <vector>

#include "tilesim/cluster/network/network.hpp"

namespace tilesim::cluster {

enum class AxisKind : std::uint8_t { circle, line, port, full };

/// Links between the switches of a fat tree: the group of each member (not falling), and messages at a time.
struct Trunks {
  std::vector<int> leaf, pod;  ///< empty: all members have one switch
  int leaf_lanes = 1, pod_lanes = 1;
  std::int64_t latency = 0;  ///< that each level adds
};

/// Routers and groups of a dragonfly: the router of each member (all are numbered through), routers of a group.
struct Routers {
  std::vector<int> router;  ///< empty: all members have one router, or it is not a dragonfly
  int per_group = 1, groups = 1;
  double global = 1;  ///< times of a link between groups, over those of others
};

/// Devices that differ in one coordinate. `exact`: no port or link of them is shared whatever they send in turn;
/// trunks may be.
struct Axis {
  AxisKind kind = AxisKind::port;
  int size = 1;
  std::int64_t bytes_per_second = 0;  ///< of a link; of the share of a port that one device has
  std::int64_t latency = 0;           ///< from one member to the next; of a port to any other, without trunks
  bool both_ways = true;
  bool exact = true;
  int dimension = 0;  ///< of the network, in which it lies
  Trunks trunks = {};
  Routers routers = {};
};

/// Axes with more than one member of a sorted set of devices; nothing where they are not a box in the network, or the
/// network is a graph. Faults are not looked at.
std::optional<std::vector<Axis>> axes_of(const Network& network, const std::vector<int>& places);

}  // namespace tilesim::cluster
