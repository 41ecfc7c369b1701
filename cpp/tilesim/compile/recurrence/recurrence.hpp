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

  /// What one trip takes from a state that all trips share, or puts into one: position first + trip * step of `axis`.
  struct Slice {
    ValueId value = no_value;
    std::size_t state = 0, axis = 0;
    std::int64_t first = 0, step = 1;  ///< step: 1 or -1
    std::vector<int> axes;             ///< of the state: axis of the space; `axis` itself has none
  };
  /// A state that every trip reads and makes anew.
  struct Renewed {
    ValueId before = no_value, after = no_value;
    std::size_t state = 0;
  };
  struct Whole {
    ValueId value = no_value;
    std::size_t state = 0;
  };

  GraphFunction body;                   ///< operations read what views show; views are left out
  Shape space;                          ///< extents of the axes along which values of a trip lie
  std::vector<bool> summed;             ///< per such axis: something adds up along it, so that it is never cut
  std::vector<std::vector<int>> axes;   ///< per value of the body and axis of it: axis of the space
  std::vector<std::vector<int>> along;  ///< per value that adds up: along which axes of the space
  std::vector<int> level;               ///< per value: reductions that must be complete before it
  std::map<ValueId, double> scalars;    ///< numbers of the body that are known
  std::vector<Slice> reads, writes;
  std::vector<Whole> wholes;
  std::vector<Renewed> states;
};

/// None where trips are more than that: products of whole states, positions that data choose, other kinds.
std::optional<Recurrence> find_recurrence(const Graph& graph, const LoopPlan& plan);

/// What one kernel saves, if nothing but the states passed through memory otherwise.
struct RecurrenceGain { double bytes = 0, cycles = 0; };

/// None where not even single elements fit the scratchpad, or the vector unit does not compute it as the arrays do.
std::optional<RecurrenceGain> recurrence_gain(const Recurrence& recurrence, const LoopPlan& plan,
                                              const Context& context);

program::Scope lower_recurrence(Context& context, const Op& op, const LoopPlan& plan, const Recurrence& recurrence);

}  // namespace tilesim::lower
