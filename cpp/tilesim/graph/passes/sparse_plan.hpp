// Products on cores whose multipliers skip zeros: how their operands are stored and tiled.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tilesim/graph/graph.hpp"

namespace tilesim {

/// What a contract of two matrices says in its attributes `sparse` (a name), `sparse_plan` (the numbers, in this order)
/// and `sparse_data`. Weights of the graph that begin with the name and a dot hold, in tiles of [m, k] and of [k, n],
/// rows of tiles first: `cycles` and `products` (multiply-adds), i64[tiles of m, of n, of k]; of an operand that is not
/// dense `a.values` and `a.starts` (i32, where each tile's values begin, one more than tiles), `a.marks` and
/// `a.marks_at` (masks or pointers, and where those of a tile begin), and for csr `a.indices`.
struct SparsePlan {
  std::string name;
  std::int64_t cut = 0;               ///< 0: dense cores take rows before `from`, sparse cores the others; 1: columns
  std::int64_t from = 0;              ///< 0: all of it is for sparse cores; all of the extent: for dense ones
  std::int64_t tiles[3] = {1, 1, 1};  ///< of m, n, k, in elements
  int forms[2] = {0, 0};              ///< of a and b: 0 dense, 1 bitmap, 2 csr
  std::int64_t bytes[2] = {0, 0};     ///< of all of a and b as they are stored; 0: dense
  int hold = 0;                       ///< 0: vectors of a are held, or walked over; 1: those of b
  std::int64_t products = -1;         ///< multiply-adds of elements that are not zero; -1: data tell
  std::string data;                   ///< from what the cycles are known
};
/// None where the operation has no plan, or weights are missing.
std::optional<SparsePlan> sparse_plan_of(const Graph& graph, const Op& op);
/// The values that tiles of an operand store, of a matrix with other values in the places where `given` is not zero.
Array stored_values(const SparsePlan& plan, const Op& op, int operand, const Array& given, const Array& matrix);
/// Names of weights that the plan of an operation may have; empty without one.
std::vector<std::string> sparse_weights(const Op& op);

}  // namespace tilesim
