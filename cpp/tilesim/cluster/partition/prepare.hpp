// Changes of a whole graph before it is divided.
#pragma once

#include "tilesim/cluster/partition/propagate.hpp"

namespace tilesim::partitioning {

/// A slice of padding is less padding: a sequence that is shifted keeps its extent, and so its even parts.
void join_slices_of_pads(GraphFunction& function);

/// What is put together along a divided axis reads slices of divided values where they come from; operands of which
/// each device has all, or which have fewer elements than there are parts, are taken whole.
void take_slices_into_joins(const Grid& grid, Graph& graph, Spread& spread);

}  // namespace tilesim::partitioning
