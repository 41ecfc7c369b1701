// Changes of a whole graph before it is divided.
#pragma once

#include "tilesim/cluster/partition/propagate.hpp"

namespace tilesim::partitioning {

/// A slice of padding is less padding: a sequence that is shifted keeps its extent, and so its even parts.
void join_slices_of_pads(GraphFunction& function);

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
