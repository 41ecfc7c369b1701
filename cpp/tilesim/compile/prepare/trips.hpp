// Trip counts of the graph's loops, if they do not depend on data.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tilesim/graph/graph.hpp"

namespace tilesim::lower {

/// The operation that produces a value; null for an input.
const Op* producer(const GraphFunction& function, ValueId value);

/// Position of a value in a list; -1 if it is missing.
int place_of(const std::vector<ValueId>& list, ValueId value);

/// A loop that runs while i < limit (or i <= limit), where the counter i has constant start and step.
struct Counted {
  int place = -1;  ///< position of the counter in the state
  std::int64_t start = 0, step = 0, trips = 0;
};

/// Empty if the trip count depends on data.
std::optional<Counted> counted_trips(const Graph& graph, const GraphFunction& function, const Op& op);

/// A state that starts at a constant integer and grows by one per trip; `trips` of the result is not set.
std::optional<Counted> counted_state(const Graph& graph, const GraphFunction& function, const Op& op, int place);

}  // namespace tilesim::lower
