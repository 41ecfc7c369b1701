// How operands of products are stored and tiled for cores whose multipliers skip zeros.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tilesim/graph/graph.hpp"

namespace tilesim {

/// The plan of a sparse contract of two matrices, from its attributes `sparse` (a name), `sparse_plan` (the numbers
/// below in order) and `sparse_data`. Weights of the graph have names that start with this name and a dot. Tiles of [m,
/// k] and [k, n] are in row-major order: `cycles` and `products` (multiply-adds) are i64[tiles of m, of n, of k]. A
/// sparse operand has `a.values` and `a.starts` (i32, start of each tile's values, tiles + 1 entries), `a.marks` and
/// `a.marks_at` (masks or pointers, and the start of each tile's), and for csr `a.indices`.
struct SparsePlan {
  std::string name;
  std::int64_t cut = 0;   ///< 0: dense cores compute rows before `from`, sparse cores the other rows; 1: columns
  std::int64_t from = 0;  ///< 0: sparse cores compute everything; full extent: dense cores do
  std::int64_t tiles[3] = {1, 1, 1};  ///< elements per tile along m, n, k
  int forms[2] = {0, 0};              ///< of a and b: 0 dense, 1 bitmap, 2 csr
  std::int64_t bytes[2] = {0, 0};     ///< stored bytes of a and b; 0: dense
  int hold = 0;                ///< operand whose vectors stay in the multipliers (inner), or are walked: 0 a, 1 b
  std::int64_t products = -1;  ///< multiply-adds of two nonzeros; -1: data-dependent
  std::string data;            ///< text: where the cycles come from
};
/// The operation's plan; empty if it has no plan or a weight of the plan is missing.
std::optional<SparsePlan> sparse_plan_of(const Graph& graph, const Op& op);
/// The stored values of an operand's tiles: elements of `matrix` where `given` is nonzero.
Array stored_values(const SparsePlan& plan, const Op& op, int operand, const Array& given, const Array& matrix);
/// Names of the weights of the operation's plan; empty without a plan.
std::vector<std::string> sparse_weights(const Op& op);

}  // namespace tilesim
