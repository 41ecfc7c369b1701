// Latencies of sorts by their kernels.
#include <algorithm>

#include "tilesim/isa/latency/latency.hpp"
#include "tilesim/isa/order/sort_kernel.hpp"

namespace tilesim::isa {

TileLatency InstructionLatency::sort(const tilesim::Sort& compute) const {
  constexpr Address apart = Address{1} << 34;
  const SortAddresses at{apart, 2 * apart, 3 * apart, 4 * apart};
  TileLatency latency = best({sort_kernel(*table_->set, core(), compute, at).kernel});
  // no place is known before all keys were compared: results come with the last registers
  latency.first = latency.done;
  return latency;
}

}  // namespace tilesim::isa
