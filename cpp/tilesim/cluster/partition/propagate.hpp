// Divisions of given values spread over a graph, along the factors that operations share.
#pragma once

#include <vector>

#include "tilesim/cluster/partition/manual.hpp"
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

}  // namespace tilesim::partitioning
