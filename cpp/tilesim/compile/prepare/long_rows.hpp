// Sorts of rows that do not fit the scratchpad.
#pragma once

#include "tilesim/graph/graph.hpp"
#include "tilesim/machine/share.hpp"

namespace tilesim::lower {

/// Splits sort and top_k of rows that do not fit the scratchpad into blocks that fit, with equal results. top_k selects
/// the best of each block, then the best of these. sort merges every pair of blocks once and gives the lower half to
/// the earlier block: m (m - 1) / 2 sorts for m blocks. Positions as the last key keep the sort stable.
void split_long_rows(Graph& graph, const Share& machine);

}  // namespace tilesim::lower
