// Time of a product of sparse operands, [m, k] · [k, n], on a core of multipliers that skips zeros, from the patterns
// of both operands or their numbers of nonzeros. Computes cycles, not values. See
// docs/explanation/compute_and_fusion.md.
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
  double partial_sums = 0;  ///< outer, row: partial sums to merge
  double spilled = 0;       ///< partial sums that are stored to memory and loaded again
};

/// Time of a product; `a` is [m, k], `b` [k, n]. inner holds vectors of a, row walks the nonzeros of a; `hold_b`:
/// exchanges the operands, as the product of the transposes.
SparseTime sparse_time(const SparseCore& core, const BitMatrix& a, const BitMatrix& b, bool hold_b = false);

struct SparseCounts { std::int64_t m = 0, n = 0, k = 0, a_nonzeros = 0, b_nonzeros = 0; };
/// Expected time for uniformly distributed nonzeros: closed forms for outer and row; for inner the mean over a few such
/// patterns from a fixed seed.
SparseTime expected_sparse_time(const SparseCore& core, const SparseCounts& counts, bool hold_b = false);

}  // namespace tilesim::sparse
