// Time of a product of sparse operands, [m, k] · [k, n], on a core of multipliers that skips zeros: from the patterns
// of both operands, or from how many elements are not zero. Cycles alone; no values. See docs/sparse.md.
#pragma once

#include <cstdint>
#include <string_view>

#include "tilesim/analytic/sparse/bit_matrix.hpp"

namespace tilesim::analytic {

enum class Dataflow : std::uint8_t { inner, outer, row };
Dataflow dataflow_named(std::string_view name);  ///< throws UserError with a suggestion

struct SparseCore {
  std::int64_t multipliers = 256;  ///< inner: a power of two
  std::int64_t read_ports = 256;   ///< inner: divides multipliers; each serves a block of neighbours
  std::int64_t write_ports = 256;  ///< output lines
  Dataflow dataflow = Dataflow::inner;
  /// outer: lanes for elements of a column of a and of a row of b; 0: any pairs, as many as multipliers.
  std::int64_t lanes_a = 0, lanes_b = 0;
  /// outer: block of the result whose sums stay where they are added; 0: sums are merged through the write ports.
  std::int64_t tile_m = 0, tile_n = 0;
  /// outer without a tile, row: sums that fit on the chip; more go out and come back. 0: all.
  std::int64_t accumulators = 0;
  /// row: a row of b is fetched in parts of so many elements, each of which costs a cycle even if empty; 0: whole rows,
  /// an empty one costs none.
  std::int64_t segment = 0;
  void check() const;  ///< throws UserError
};

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

}  // namespace tilesim::analytic
