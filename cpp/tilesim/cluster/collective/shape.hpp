// The axes, inner first, that the devices of a collective form; input of the closed forms.
#pragma once

#include <optional>
#include <vector>

#include "tilesim/cluster/network/network.hpp"

namespace tilesim::cluster {

enum class AxisKind : std::uint8_t { circle, line, port, full };

/// Links between switches of a fat tree: the group of each member (ascending), and number of concurrent messages.
struct Trunks {
  std::vector<int> leaf, pod;  ///< empty: all members are below one switch
  int leaf_lanes = 1, pod_lanes = 1;
  std::int64_t latency = 0;  ///< added by each level
};

/// Routers and groups of a dragonfly: the router of each member (numbered globally), routers per group.
struct Routers {
  std::vector<int> router;  ///< empty: one router for all members, or not a dragonfly
  int per_group = 1, groups = 1;
  double global = 1;  ///< time of a link between groups, relative to others
};

/// Devices that differ in one coordinate. `exact`: they share no port or link when they send in turn, except trunks.
struct Axis {
  AxisKind kind = AxisKind::port;
  int size = 1;
  std::int64_t bytes_per_second = 0;  ///< of a link, or of one device's share of a port
  std::int64_t latency = 0;           ///< between adjacent members; for ports between any two members, without trunks
  bool both_ways = true;
  bool exact = true;
  int dimension = 0;  ///< index of its dimension in the network
  Trunks trunks = {};
  Routers routers = {};
  bool grid() const { return kind == AxisKind::circle || kind == AxisKind::line; }
};

/// Axes with several members of a sorted set of devices. Empty if the devices do not form a box in the network, or if
/// the network is a graph. Ignores faults.
std::optional<std::vector<Axis>> axes_of(const Network& network, const std::vector<int>& places);

}  // namespace tilesim::cluster
