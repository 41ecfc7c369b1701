// Embeddings whose only readers are vector kernels: these kernels fetch rows by the ids, and no kernel stores the rows.
#pragma once

#include <vector>

#include "tilesim/compile/plan/options.hpp"
#include "tilesim/compile/plan/plan.hpp"

namespace tilesim::lower {

/// Whether a row of the table is in memory element by element, one burst each, so that copying it pays.
/// pays.
bool rows_scattered(const Context& context, const Placement& table, std::int64_t rows);

/// Replaces the placements of embedding results by their tables, read through the ids, if this moves fewer bytes, and
/// removes the embedding kernels. A kernel whose table has scattered rows stays and copies the table. Requires layouts.
void fetch_rows_in_readers(Context& context, std::vector<Kernel>& kernels);

/// Loads a tile of rows that indices select, with one load per run of consecutive indices. Arguments as in
/// region_transfer; `offset`: offset of the tile in the slot.
program::Statement load_rows(const Placement& placement, const std::vector<Expr>& start,
                             const std::vector<Expr>& extents, const std::vector<std::int64_t>& slot_strides,
                             const Expr& offset, const std::string& slot);

/// Axes of the value with a separate load of rows per position, except if the tile has all of an inner axis.
std::vector<int> rows_apart(const Placement& placement);

}  // namespace tilesim::lower
