// Lower bounds on the bytes and the time of a graph. They follow from the graph and the figures of the machine only and
// do not depend on how the compiler groups, tiles or places operations.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tilesim/graph/attention.hpp"
#include "tilesim/machine/machine.hpp"

namespace tilesim::analytic {

/// Lower bound of one operation: the least time that each part of the machine needs for it.
struct BoundRow {
  std::string name, kind;
  double count = 1;          ///< number of executions
  double multiply_adds = 0;  ///< of all runs, without the masked pairs of attention
  double array_seconds = 0, vector_seconds = 0;
};

struct LowerBound {
  double bytes = 0;             ///< the larger of the next two
  double compulsory_bytes = 0;  ///< inputs, weights and outputs once
  double capacity_bytes = 0;    ///< of products, given the capacity of the chip
  double array_seconds = 0, vector_seconds = 0, memory_seconds = 0;
  double seconds = 0;  ///< the largest of the three
  std::vector<BoundRow> rows;

  /// The largest of the three: "array", "vector" or "memory"; "none" if nothing takes time.
  std::string_view part() const;
};

/// Calls and loops count as often as the graph states; branches and loops with a data-dependent length count as zero.
/// All rows of experts may use one matrix; caches of attentions without `known` lengths may be empty.
LowerBound lower_bound(const Graph& graph, const Machine& machine, const AttentionData& known = {});
/// For a device described only by its rates: without on-chip memory and whole tiles.
LowerBound lower_bound(const Graph& graph, const Device& device, const AttentionData& known = {});

}  // namespace tilesim::analytic
