// Time of a product of sparse operands, [m, k] · [k, n], on a core whose multipliers skip zeros, from the operands'
// nonzero patterns or numbers of nonzeros. See docs/explanation/compute_and_fusion.md.
#pragma once

#include <cstdint>

#include "tilesim/machine/machine.hpp"
#include "tilesim/tile/sparse/bit_matrix.hpp"

namespace tilesim::sparse {

using SparseCore = SparseSpec;

struct SparseTime {
  double cycles = 0;
  double products = 0;      ///< products of nonzeros; inner: also with streamed zeros
  double placements = 0;    ///< inner: number of placements of stationary elements
  double partial_sums = 0;  ///< outer, row: number of partial sums to merge
  double spilled = 0;       ///< partial sums that are stored to memory and loaded again
};

/// Time of the product of `a` [m, k] and `b` [k, n]. inner keeps vectors of a in the multipliers; row walks the
/// nonzeros of a. `hold_b`: exchanges the roles of a and b by computing the product of the transposes.
SparseTime sparse_time(const SparseCore& core, const BitMatrix& a, const BitMatrix& b, bool hold_b = false);

struct SparseCounts { std::int64_t m = 0, n = 0, k = 0, a_nonzeros = 0, b_nonzeros = 0; };
/// Expected time if nonzeros are uniformly distributed: closed forms for outer and row; for inner, the mean over a few
/// such patterns from a constant seed.
SparseTime expected_sparse_time(const SparseCore& core, const SparseCounts& counts, bool hold_b = false);

}  // namespace tilesim::sparse
