// Weights in the 2:4 pattern, which arrays multiply without the zeros.
#pragma once

#include <string>
#include <vector>

#include "tilesim/graph/graph.hpp"
#include "tilesim/machine/share.hpp"

namespace tilesim::lower {

/// Stores weights with 2:4 sparsity as values and positions if the arrays support that. `notes`: compressed weights,
/// and expanded ones with the reason.
void compress_weights(Graph& graph, const Share& machine, std::vector<std::string>& notes);

}  // namespace tilesim::lower
