// Lower bounds on the bytes and the time of a graph. They depend only on the graph and the machine's rates, not on how
// the compiler groups, tiles or places operations.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tilesim/graph/attention.hpp"
#include "tilesim/machine/machine.hpp"

namespace tilesim::analytic {

/// Lower bound of one operation: the least time of each unit.
struct BoundRow {
  std::string name, kind;
  double count = 1;          ///< number of executions
  double multiply_adds = 0;  ///< of all executions, without pairs that attention masks
  double array_seconds = 0, vector_seconds = 0;
};

struct LowerBound {
  double bytes = 0;             ///< the larger of both lines below
  double compulsory_bytes = 0;  ///< inputs, weights and outputs, each once
  double capacity_bytes = 0;    ///< traffic of products, given the chip's capacity
  double array_seconds = 0, vector_seconds = 0, memory_seconds = 0;
  double seconds = 0;  ///< the longest of the three above
  std::vector<BoundRow> rows;

  /// The unit with the longest time: "array", "vector" or "memory"; "none" if all times are 0.
  std::string_view part() const;
};

/// Calls and loops count as often as the graph states; branches, and loops with data-dependent length, count as 0. The
/// bound assumes that experts share one matrix, and that caches of attentions without `known` lengths are empty.
LowerBound lower_bound(const Graph& graph, const Machine& machine, const AttentionData& known = {});
/// For a device described only by its rates: no on-chip memory, and no rounding to tiles.
LowerBound lower_bound(const Graph& graph, const Device& device, const AttentionData& known = {});

}  // namespace tilesim::analytic
