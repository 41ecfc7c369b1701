// Moves reshapes from in front of elementwise operations to behind them.
#pragma once

#include <vector>

#include "tilesim/compile/plan/options.hpp"
#include "tilesim/graph/graph.hpp"

namespace tilesim::lower {

/// Rewrites y = f(reshape(x), z) as y = reshape(f(x, z')), where z' is a view of z with the axes of x, so that f can
/// join the producer of x. The reshape must have no other reader. Results keep their names. `looked_at` gets a row per
/// reshape whose only reader is elementwise.
void sink_views(Graph& graph, std::vector<FusionCandidate>& looked_at);

}  // namespace tilesim::lower
