// Sorts of rows that exceed the scratchpad.
#pragma once

#include "tilesim/graph/graph.hpp"
#include "tilesim/machine/share.hpp"

namespace tilesim::lower {

/// Sorts and top_k of rows that do not fit the scratchpad become those of blocks that do, with equal results: of top_k
/// the best of each block, and of those the best; of sort every two blocks are sorted together once, the lower half to
/// the earlier block (m (m - 1) / 2 sorts of m blocks; positions as a last key keep equal elements in order).
void split_long_rows(Graph& graph, const Share& machine);

}  // namespace tilesim::lower
