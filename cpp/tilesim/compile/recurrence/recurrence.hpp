// Lowers counted loops whose trips apply functions along shared axes (selective scans, gated averages) to one kernel.
// The state stays on chip during all trips; inputs of the trips stream by in chunks.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "tilesim/compile/prepare/loops.hpp"

namespace tilesim::lower {

struct Recurrence {
  static constexpr int none = -1;  ///< an axis of extent 1

  /// The slice of a shared state that one trip reads or writes: position first + trip * step along `axis`.
  struct Slice {
    ValueId value = no_value;
    std::size_t state = 0, axis = 0;
    std::int64_t first = 0, step = 1;  ///< step: 1 or -1
    std::vector<int> axes;             ///< axis of the space for each axis of the state; `axis` has none
  };
  /// A state that every trip reads and replaces.
  struct Renewed {
    ValueId before = no_value, after = no_value;
    std::size_t state = 0;
  };
  struct Whole {
    ValueId value = no_value;
    std::size_t state = 0;
  };

  GraphFunction body;                   ///< without views; operations read their sources
  Shape space;                          ///< extents of the axes of a trip's values
  std::vector<bool> summed;             ///< per such axis: an operation reduces it, so that it is not split
  std::vector<std::vector<int>> axes;   ///< per value of the body and axis: axis of the space
  std::vector<std::vector<int>> along;  ///< per reduction result: reduced axes of the space
  std::vector<int> level;               ///< per value: number of reductions that must finish before it
  std::map<ValueId, double> scalars;    ///< known numbers of the body
  std::vector<Slice> reads, writes;
  std::vector<Whole> wholes;
  std::vector<Renewed> states;
};

/// Empty if trips need more: products of whole states, data-dependent positions, other kinds.
std::optional<Recurrence> find_recurrence(const Graph& graph, const LoopPlan& plan);

/// Savings of one kernel, compared with states that pass through memory at no other cost.
struct RecurrenceGain { double bytes = 0, cycles = 0; };

/// Empty if single elements do not fit the scratchpad, or if the vector unit's results differ from the arrays'.
std::optional<RecurrenceGain> recurrence_gain(const Recurrence& recurrence, const LoopPlan& plan,
                                              const Context& context);

program::Scope lower_recurrence(Context& context, const Op& op, const LoopPlan& plan, const Recurrence& recurrence);

}  // namespace tilesim::lower
