// Closed-form times of collectives.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tilesim/cluster/collective/schedule.hpp"
#include "tilesim/cluster/collective/shape.hpp"

namespace tilesim::cluster {

/// The algorithm of a collective and its parameters.
struct Choice {
  std::string algorithm = "auto";  ///< ring, tree, halving-doubling, bruck, direct, torus, hierarchical
  int rings = 0;                   ///< directed rings; 0: one per direction of the links
  int pieces = 0;  ///< for trees, broadcasts and hierarchical; 0: hierarchical chooses by bytes, rate and latency
  int root = 0;
  bool operator==(const Choice&) const = default;
};

struct Closed {
  std::int64_t picoseconds = 0;
  bool exact = true;  ///< no link is shared: the time equals that of `chunks`; otherwise an estimate
};

/// What a formula is asked for. `axes` has an axis.
struct Setting {
  Operation operation;
  const Choice& choice;
  const std::vector<Axis>& axes;
  std::int64_t bytes;
};

// Times of algorithms by operation; empty without a formula on these axes.
std::optional<Closed> exchange_direct_time(const Setting& set);
std::optional<Closed> exchange_ring_time(const Setting& set);
std::optional<Closed> exchange_bruck_time(const Setting& set);
std::optional<Closed> exchange_torus_time(const Setting& set);
std::optional<Closed> exchange_levels_time(const Setting& set);
std::optional<Closed> broadcast_ring_time(const Setting& set);
std::optional<Closed> broadcast_direct_time(const Setting& set);
std::optional<Closed> broadcast_tree_time(const Setting& set);
std::optional<Closed> spread_levels_time(const Setting& set);
std::optional<Closed> spread_ring_time(const Setting& set);
std::optional<Closed> spread_direct_time(const Setting& set);
std::optional<Closed> spread_bruck_time(const Setting& set);
std::optional<Closed> spread_halving_time(const Setting& set);

/// Whether devices form a torus: every axis is a ring.
bool circles(const std::vector<Axis>& axes);

/// Directed rings on an axis, as steps between adjacent ring members: 1, n - 1, then others coprime to n.
std::vector<int> ring_strides(int devices, int rings);
int default_rings(const Axis& axis);
int pieces_for(const Choice& choice, int hops, std::int64_t bytes, std::int64_t bytes_per_second, std::int64_t latency);

/// Legs and parts of `hierarchical` (and `torus`, which is the same on rings).
struct HierarchicalPlan {
  std::vector<Leg> legs;
  std::vector<PartRoute> parts;
};
HierarchicalPlan hierarchical(const std::vector<Axis>& axes);

}  // namespace tilesim::cluster
