// Weights in the 2:4 pattern, which arrays multiply without the zeros.
#pragma once

#include <string>
#include <vector>

#include "tilesim/graph/graph.hpp"
#include "tilesim/machine/share.hpp"

namespace tilesim::lower {

/// Weights in the pattern 2:4 are stored as values and places where the arrays take them. `notes`: which, and which lie
/// expanded, with the reason.
void compress_weights(Graph& graph, const Share& machine, std::vector<std::string>& notes);

}  // namespace tilesim::lower
