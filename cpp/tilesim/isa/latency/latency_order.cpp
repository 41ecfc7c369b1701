// Latencies of sorts by their kernels.
#include <algorithm>
#include <utility>

#include "tilesim/isa/latency/latency.hpp"
#include "tilesim/isa/order/sort_kernel.hpp"

namespace tilesim::isa {

TileLatency InstructionLatency::sort(const tilesim::Sort& compute) const {
  constexpr Address apart = Address{1} << 34;
  const SortAddresses at{apart, 2 * apart, 3 * apart, 4 * apart};
  std::vector<Kernel> all;
  for (SortKernel& one : sort_kernels(*table_->set, core(), compute, at)) all.push_back(std::move(one.kernel));
  TileLatency latency = best(all);
  // all keys must be compared before any position is known: results come last
  latency.first = latency.done;
  return latency;
}

}  // namespace tilesim::isa
