// Demands of a product on the units around an array: scratchpad ports, vector unit and front end.
#pragma once

#include <cstdint>

#include "tilesim/machine/share.hpp"
#include "tilesim/tile/tile.hpp"

namespace tilesim {

/// Cycles that one set of weights keeps each unit beside the array at work.
struct AroundArray {
  double load = 0, store = 0, vector = 0, issue = 0;
  double longest() const;
  const char* limit() const;  ///< the unit that takes longest
};

/// Rows and weights pass load ports, a register at a time; where the vector unit accumulates, results pass it and a
/// store port, and what they are added to a load port. Of a product on an array in which an operand stays:
/// `stationary_a` says which. `adds`: to sums that are there; `weights`: they are loaded too.
AroundArray around_array(const Share& machine, const Descriptor& descriptor, bool adds, bool weights);

/// Cycles from a kernel's start until its first weights are in the array's queue, beside loading them: issue, dispatch,
/// a load's latency and first beat, the queue. None where arrays have a separate memory, and take rows by
/// themselves.
std::int64_t array_start(const Share& machine);
/// Cycles from the last row's leaving the array until its sum is in the scratchpad: taken, added, stored.
std::int64_t array_end(const Share& machine, bool adds);

}  // namespace tilesim
