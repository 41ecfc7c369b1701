// Sorts of rows that exceed the scratchpad.
#pragma once

#include "tilesim/graph/graph.hpp"
#include "tilesim/machine/share.hpp"

namespace tilesim::lower {

/// Splits sort and top_k of rows that do not fit the scratchpad into blocks that do, with equal results. top_k takes
/// the best of each block, then the best of those. sort merges every pair of blocks once, the lower half to the earlier
/// one (m (m - 1) / 2 sorts of m blocks; positions as a last key keep it stable).
void split_long_rows(Graph& graph, const Share& machine);

}  // namespace tilesim::lower
