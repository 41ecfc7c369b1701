// Moves reshapes from before elementwise operations to behind them.
#pragma once

#include <vector>

#include "tilesim/compile/plan/options.hpp"
#include "tilesim/graph/graph.hpp"

namespace tilesim::lower {

/// y = f(reshape(x), z) becomes y = reshape(f(x, z')), where z' is z by the axes of x without moving anything: f is
/// then part of what makes x. Only f may read the reshape. Results keep their names. `looked_at` gets a row for each
/// reshape in front of an elementwise operation that is its only reader.
void sink_views(Graph& graph, std::vector<FusionCandidate>& looked_at);

}  // namespace tilesim::lower
