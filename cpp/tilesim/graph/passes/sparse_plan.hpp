// Products on cores whose multipliers skip zeros: how their operands are stored and tiled.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tilesim/graph/graph.hpp"

namespace tilesim {

/// The plan of a sparse contract of two matrices, in its attributes `sparse` (a name), `sparse_plan` (the numbers, in
/// this order) and `sparse_data`. Graph weights whose names start with the name and a dot contain, in tiles of [m, k]
/// and [k, n] in row-major order: `cycles` and `products` (multiply-adds), i64[tiles of m, of n, of k]; for a sparse
/// operand `a.values` and `a.starts` (i32, start of each tile's values, tiles + 1 entries), `a.marks` and `a.marks_at`
/// (masks or pointers, and the start of each tile's), and for csr `a.indices`.
struct SparsePlan {
  std::string name;
  std::int64_t cut = 0;               ///< 0: dense cores compute rows before `from`, sparse cores the rest; 1: columns
  std::int64_t from = 0;              ///< 0: sparse cores compute all; the full extent: dense cores do
  std::int64_t tiles[3] = {1, 1, 1};  ///< of m, n, k, in elements
  int forms[2] = {0, 0};              ///< of a and b: 0 dense, 1 bitmap, 2 csr
  std::int64_t bytes[2] = {0, 0};     ///< stored bytes of a and b; 0: dense
  int hold = 0;                       ///< operand with held vectors, or that is walked over: 0 for a, 1 for b
  std::int64_t products = -1;         ///< multiply-adds of nonzero elements; -1: data-dependent
  std::string data;                   ///< source of the cycles
};
/// The operation's plan; empty if the operation has none, or if weights are missing.
std::optional<SparsePlan> sparse_plan_of(const Graph& graph, const Op& op);
/// The stored values of an operand's tiles, from `matrix` at the nonzero positions of `given`.
Array stored_values(const SparsePlan& plan, const Op& op, int operand, const Array& given, const Array& matrix);
/// Names of weights that the operation's plan may use; empty without a plan.
std::vector<std::string> sparse_weights(const Op& op);

}  // namespace tilesim
