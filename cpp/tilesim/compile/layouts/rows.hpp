// Embeddings that only vector kernels read: these kernels fetch the rows by the ids, and no kernel stores them first.
#pragma once

#include <vector>

#include "tilesim/compile/plan/options.hpp"
#include "tilesim/compile/plan/plan.hpp"

namespace tilesim::lower {

/// Whether rows of the table lie in memory element by element, a burst each, so that a copy with contiguous rows pays.
bool rows_scattered(const Context& context, const Placement& table, std::int64_t rows);

/// Replaces the placements of the embeddings' results by that of their tables, read through the ids, if that moves
/// fewer bytes, and removes the kernels. A kernel whose table has scattered rows stays, and copies it. Needs layouts.
void fetch_rows_in_readers(Context& context, std::vector<Kernel>& kernels);

/// The loads of a tile of rows that indices select: one for each run of consecutive indices. Arguments as for
/// region_transfer; `offset`: of the tile in the slot.
program::Statement load_rows(const Placement& placement, const std::vector<Expr>& start,
                             const std::vector<Expr>& extents, const std::vector<std::int64_t>& slot_strides,
                             const Expr& offset, const std::string& slot);

/// Axes of the value along which each position needs a separate load of rows, unless the tile has all of an inner axis.
std::vector<int> rows_apart(const Placement& placement);

}  // namespace tilesim::lower
