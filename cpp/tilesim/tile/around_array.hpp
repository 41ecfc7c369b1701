// Times that a product needs on the units around an array: scratchpad ports, vector unit and front end.
#pragma once

#include <cstdint>

#include "tilesim/machine/share.hpp"
#include "tilesim/tile/tile.hpp"

namespace tilesim {

/// Cycles for which one set of weights, with its rows, occupies each unit around the array.
struct AroundArray {
  double load = 0, store = 0, vector = 0, issue = 0;
  double longest() const;
  const char* limit() const;  ///< name of the unit with the most cycles
};

/// Applies to arrays with a stationary operand, which `stationary_a` selects. Rows and weights cross the load ports one
/// register at a time. If the vector unit accumulates, results cross it and a store port, and earlier sums a load port.
/// `adds`: the product adds to existing sums; `weights`: it also loads weights.
AroundArray around_array(const Share& machine, const Descriptor& descriptor, bool adds, bool weights);

/// Cycles from a kernel's start until its first weights are in the array's queue, without the cycles of loading them:
/// issue, dispatch, a load's latency and first beat, the queue. Zero if arrays have an accumulator memory and fetch
/// rows without instructions.
std::int64_t array_start(const Share& machine);
/// Cycles from the last row's exit from the array until its sum is in the scratchpad: read, add, store.
std::int64_t array_end(const Share& machine, bool adds);

}  // namespace tilesim
