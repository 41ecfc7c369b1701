// Trip counts of the graph's loops, if they are known before the loop runs.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tilesim/graph/graph.hpp"

namespace tilesim::lower {

/// The operation that makes a value; null for inputs.
const Op* producer(const GraphFunction& function, ValueId value);

/// Place of a value in a list; -1 where it is not.
int place_of(const std::vector<ValueId>& list, ValueId value);

/// A counter i that goes on while i < limit (or i <= limit), from a known start by a known step.
struct Counted {
  int place = -1;  ///< of the counter in the loop's state
  std::int64_t start = 0, step = 0, trips = 0;
};

/// None where only data know how often the loop runs.
std::optional<Counted> counted_trips(const Graph& graph, const GraphFunction& function, const Op& op);

/// A state of the loop that starts at a known whole number and grows by one in every trip; its `trips` say nothing.
std::optional<Counted> counted_state(const Graph& graph, const GraphFunction& function, const Op& op, int place);

}  // namespace tilesim::lower
