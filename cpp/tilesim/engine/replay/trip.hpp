// The tensors, expressions and counters that one trip of a loop uses.
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

/// An expression that depends on indices of enclosing loops.
struct IndexedExpression {
  Expr expr;
  bool moves = false;    ///< depends on the index of the loop in question
  bool extent = false;   ///< is the extent of an inner loop
  bool counted = false;  ///< waits for a counter that sums over all earlier trips
};

struct Moved {
  const program::Tensor* tensor = nullptr;
  std::vector<Expr> at;
};

struct Trip {
  std::string index;
  std::int64_t trips = 0;
  std::map<std::string, std::set<std::int64_t>> last;  ///< per index of this or an inner loop: last values
  std::vector<IndexedExpression> places;
  std::vector<Moved> moved;  ///< transfers of loads and stores
  bool calls = false;
  bool unclear = false;  ///< a called function has an index with the loop's name
};

/// Collects one trip, including called functions that receive the index. `instead`: replacements of loop extents.
Trip trip_of(const program::Program& program, const program::For& loop, const TripCounts& instead);

}  // namespace tilesim::engine::replay
