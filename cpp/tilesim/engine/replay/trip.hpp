// The statements of one trip of a loop: tensors, expressions and counters that it uses.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tilesim/program/count.hpp"
#include "tilesim/program/program.hpp"

namespace tilesim::engine::replay {

using TripCounts = program::Executions::TripCounts;

/// An expression in terms of the enclosing indices.
struct IndexedExpression {
  Expr expr;
  bool moves = false;    ///< depends on the loop's index
  bool extent = false;   ///< extent of an inner loop
  bool counted = false;  ///< waits for a count over all trips so far
};

struct Moved {
  const program::Tensor* tensor = nullptr;
  std::vector<Expr> at;
};

struct Trip {
  std::string index;
  std::int64_t trips = 0;
  std::map<std::string, std::set<std::int64_t>> last;  ///< index of this and inner loops -> its last values, if known
  std::vector<IndexedExpression> places;
  std::vector<Moved> moved;  ///< bytes of loads and stores
  bool calls = false;
  bool unclear = false;  ///< a function called with the index has an index of the same name
};

/// Follows calls of functions with parameters that depend on the index. `instead`: loops with replaced extents.
Trip trip_of(const program::Program& program, const program::For& loop, const TripCounts& instead);

}  // namespace tilesim::engine::replay
