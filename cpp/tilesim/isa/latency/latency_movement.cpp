// Latencies of permutes, gathers and scatters: their fastest kernel.
#include <algorithm>

#include "tilesim/isa/latency/dry_run.hpp"
#include "tilesim/isa/latency/latency.hpp"
#include "tilesim/isa/latency/narrower.hpp"
#include "tilesim/isa/state/npu.hpp"

namespace tilesim::isa {

namespace {

/// Address of a view, or `own` if it has none.
Address place_of(const TileView& view, Address own) {
  if (view.address < 0) return own;
  return (view.memory == TileMemory::accumulator ? accumulator_base : scratchpad_base) +
         static_cast<Address>(view.address);
}

}  // namespace

TileLatency InstructionLatency::best(const std::vector<Kernel>& kernels) const {
  TileLatency latency;
  for (const Kernel& kernel : kernels) {
    DryRun run(table_, every_trip_);
    run.run(kernel);
    const std::int64_t done = run.pipeline().drain();
    const char* const limit = busiest(run.pipeline());
    const std::vector<UnitTimes> alone = run.pipeline().units();
    // the same kernel directly afterwards
    run.run(kernel);
    const std::int64_t more = run.pipeline().drain() - done;
    const std::int64_t busy = std::clamp<std::int64_t>(more, 1, std::max<std::int64_t>(1, done));
    if (latency.done != 0 && busy + done >= latency.busy + latency.done) continue;
    latency.done = std::max<std::int64_t>(1, done), latency.busy = busy, latency.limit = limit;
    latency.why = reason_of(run.pipeline(), alone, more);
    taken_ = kernel;
  }
  latency.consumed = latency.weights_consumed = latency.busy;
  return latency;
}

TileLatency InstructionLatency::permute(const Permute& compute) const {
  const PermuteAddresses at{place_of(compute.in, Address{1} << 24), place_of(compute.out, Address{1} << 34),
                            Address{1} << 38};
  TileLatency latency = best(permutes_of_cores(*table_->set, core(), compute, at));
  latency.first = std::min<std::int64_t>(latency.done, (core().delay + core().load_latency) / cycle + 1);
  return latency;
}

TileLatency InstructionLatency::indexed(const Indexed& compute) const {
  const IndexedAddresses at{place_of(compute.in, Address{1} << 24), place_of(compute.index, Address{1} << 34),
                            place_of(compute.out, Address{1} << 38)};
  TileLatency latency = best(indexed_of_cores(*table_->set, core(), compute, at));
  latency.first = std::min<std::int64_t>(latency.done, 2 * (core().delay + core().load_latency) / cycle + 1);
  return latency;
}

}  // namespace tilesim::isa
