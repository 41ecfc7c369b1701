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

/// From the shardings that values of the graph carry. Given axes never change, open ones may be divided further.
Spread propagate(const Grid& grid, const Graph& graph);

// prepare.cpp: changes of a whole graph before it is divided.

/// A slice of padding is less padding: a sequence that is shifted keeps its extent, and so its even parts.
void join_slices_of_pads(GraphFunction& function);

/// Pieces without elements are put together with nothing.
void leave_out_empty_pieces(GraphFunction& function);

/// State that a loop copies from trip to trip is the same value, and does not change its layout.
void pass_state_on(Graph& graph);

/// Whether a constant is divided as its readers are; small buffers stand whole on every device.
bool is_parameter(const Weight& weight);

/// Parameters in loops and branches become state and operands of these, so that they are divided as those of the entry
/// function are. Functions that several operations call keep theirs, and so do graphs with regions of devices' own
/// tensors.
void lift_from_loops(Graph& graph);

/// What is put together along a divided axis reads slices of divided values where they come from; operands of which
/// each device has all, or which have fewer elements than there are parts, are taken whole.
void take_slices_into_joins(const Grid& grid, Graph& graph, Spread& spread);

// manual.cpp: regions whose tensors are a device's own over some axes of the mesh.

/// A call at the border of a region, in the role "full_to_shard" or "shard_to_full".
struct Crossing {
  bool enters = true;
  std::vector<Atoms> axes;  ///< that divide each axis of the whole tensor into the devices' own ones
  Atoms own;                ///< all atoms over which tensors in the region are a device's own
};
bool crosses(const Op& op);
std::optional<Crossing> crossing_of(const Grid& grid, const Graph& graph, const Op& op);

/// Atoms over which each value is a device's own, by function and value; empty outside of regions. Unsupported for an
/// operation between devices that is in no region, or that leaves a region's axes.
std::vector<std::vector<Atoms>> own_atoms(const Grid& grid, const Graph& graph);

/// Layouts beyond a border, where they pass it without moves: atoms of `inside` that divide parts of equal size.
Layout inside_of(const Grid& grid, const Crossing& crossing, const Shape& inside, const Layout& layout);
Layout outside_of(const Crossing& crossing, const Layout& inside);

}  // namespace tilesim::partitioning
