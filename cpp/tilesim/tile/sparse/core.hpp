// Time of a product of sparse operands, [m, k] · [k, n], on a core of multipliers that skips zeros: from the patterns
// of both operands, or from how many elements are not zero. Cycles alone; no values. See
// docs/explanation/compute_and_fusion.md.
#pragma once

#include <cstdint>

#include "tilesim/machine/machine.hpp"
#include "tilesim/tile/sparse/bit_matrix.hpp"

namespace tilesim::sparse {

using SparseCore = SparseSpec;

struct SparseTime {
  double cycles = 0;
  double products = 0;      ///< inner: of stationary elements that are not zero with all streamed ones; else of both
  double placements = 0;    ///< inner: how often stationary elements are placed
  double partial_sums = 0;  ///< outer, row: sums to be merged
  double spilled = 0;       ///< of those, the ones that go out and come back
};

/// `a` is [m, k], `b` [k, n]. inner holds vectors of a, row walks over the nonzeros of a; `hold_b`: of b instead, as
/// the product of the transposed operands.
SparseTime sparse_time(const SparseCore& core, const BitMatrix& a, const BitMatrix& b, bool hold_b = false);

struct SparseCounts { std::int64_t m = 0, n = 0, k = 0, a_nonzeros = 0, b_nonzeros = 0; };
/// The expectation where so many elements lie anywhere with equal probability: closed for outer and row; for inner the
/// mean of a few such patterns, drawn from a fixed seed.
SparseTime expected_sparse_time(const SparseCore& core, const SparseCounts& counts, bool hold_b = false);

}  // namespace tilesim::sparse
