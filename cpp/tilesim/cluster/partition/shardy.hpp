// A graph as a module of Shardy's dialect: operations that Shardy knows by their rules alone.
#pragma once

#include <string>

#include "tilesim/graph/graph.hpp"

namespace tilesim::partitioning {

/// Text of MLIR. Every operation is a custom_call with the rule of its kind, and backend_config "function operation" by
/// index; loops and branches are StableHLO's. Elements are f32, or i1 for bool. `graph` is opened and names a mesh.
std::string shardy_module(const Graph& graph);

}  // namespace tilesim::partitioning
