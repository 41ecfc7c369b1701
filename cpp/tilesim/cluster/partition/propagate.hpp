// Propagates the shardings of given values over a graph, along the factors that operations share.
#pragma once

#include <optional>
#include <vector>

#include "tilesim/cluster/partition/rule.hpp"

namespace tilesim::partitioning {

struct Spread {
  std::vector<std::vector<Layout>> layouts;  ///< by function and value
  std::vector<std::vector<Rule>> rules;      ///< by function and operation
};

/// Propagates the shardings of the graph's values. Given axes never change; open ones may be sharded further.
Spread propagate(const Grid& grid, const Graph& graph);

// prepare.cpp: changes of the full graph before partitioning.

/// Turns a slice of a pad into less padding: a shifted sequence keeps its extent, and with it even parts.
void join_slices_of_pads(GraphFunction& function);

/// Removes empty operands of joins.
void leave_out_empty_pieces(GraphFunction& function);

/// Treats state that a loop copies unchanged as one value, so that its layout does not change.
void pass_state_on(Graph& graph);

/// Whether a constant is sharded like its readers; small buffers stay unsharded on every device.
bool is_parameter(const Weight& weight);

/// Turns parameters in loops and branches into their state and operands, so that they are sharded like parameters of
/// the entry function; except in functions with several callers, and in graphs with manual regions.
void lift_from_loops(Graph& graph);

/// Joins along a sharded axis read slices of sharded values at their source; operands present in full on each device,
/// or with fewer elements than parts, are taken as a whole.
void take_slices_into_joins(const Grid& grid, Graph& graph, Spread& spread);

// manual.cpp: regions whose tensors are per-device over some mesh axes.

/// A call at the border of a manual region, in the role "full_to_shard" or "shard_to_full".
struct Crossing {
  bool enters = true;
  std::vector<Atoms> axes;  ///< per axis: atoms that shard the full tensor into per-device tensors
  Atoms own;                ///< all atoms over which tensors in the region are per-device
};
bool crosses(const Op& op);
std::optional<Crossing> crossing_of(const Grid& grid, const Graph& graph, const Op& op);

/// Atoms over which each value is per-device, by function and value; empty outside regions. Throws Unsupported for an
/// operation between devices outside regions, or on axes outside its region.
std::vector<std::vector<Atoms>> own_atoms(const Grid& grid, const Graph& graph);

/// Layouts across a border that they pass without moves: atoms of `inside` that split parts of equal size.
Layout inside_of(const Grid& grid, const Crossing& crossing, const Shape& inside, const Layout& layout);
Layout outside_of(const Crossing& crossing, const Layout& inside);

}  // namespace tilesim::partitioning
