#include "tilesim/isa/latency/latency.hpp"

#include <algorithm>
#include <cstdlib>

#include "tilesim/base/error.hpp"
#include "tilesim/isa/kernel/vector_apart.hpp"
#include "tilesim/isa/latency/custom_kernel.hpp"
#include "tilesim/isa/latency/dry_run.hpp"
#include "tilesim/isa/latency/narrower.hpp"
#include "tilesim/isa/table/user.hpp"
#include "tilesim/tile/compute.hpp"
#include "tilesim/tile/latency.hpp"

namespace tilesim::isa {

namespace {

std::int64_t cycles_up(Ticks t) { return (t + cycle - 1) / cycle; }

/// Number of contiguous rows of the moving operand: rows at equal distances. Rows may pass in any order; DMA separates
/// them where windows step over columns.
std::int64_t run_of(std::vector<ViewDim> rows) {
  std::erase_if(rows, [](const ViewDim& dim) { return dim.extent == 1; });
  std::ranges::sort(rows, {}, [](const ViewDim& dim) { return std::abs(dim.stride); });
  std::int64_t longest = 1;
  for (std::size_t first = 0; first < rows.size(); ++first) {
    std::int64_t run = rows[first].extent;
    for (std::size_t next = first + 1; next < rows.size() && rows[next].stride == rows[first].stride * run; ++next)
      run *= rows[next].extent;
    longest = std::max(longest, run);
  }
  return longest;
}

std::vector<ViewDim> part(const std::vector<ViewDim>& dims, int first, int count) {
  return {dims.begin() + first, dims.begin() + first + count};
}

}  // namespace

const char* busiest(const Pipeline& pipeline) {
  static constexpr std::pair<std::string_view, const char*> names[] = {
      {"array", "array"},       {"load", "load port"},  {"store", "store port"},
      {"arithmetic", "vector"}, {"special", "special"}, {"cross_lane", "cross-lane"}};
  const char* found = "latency";
  const Ticks all = pipeline.drain() * cycle;
  Ticks most = all / 4, front = 0;
  for (const UnitTimes& unit : pipeline.units()) {
    const Ticks busy = unit.in[static_cast<std::size_t>(State::busy)];
    if (unit.name == "front") front = busy;
    for (const auto& [begin, shown] : names)
      if (unit.name.starts_with(begin) && busy > most) most = busy, found = shown;
  }
  for (const ArrayClock& array : pipeline.arrays())
    if (array.loading() > most) most = array.loading(), found = "weights";
  return front > all / 10 * 9 && front > most ? "front end" : found;
}

MmaForm form_of(const Machine& machine, const Mma& mma, const Descriptor& d) {
  const int kept = kept_operand(machine.core.array, mma.stationary_a);
  if (kept < 0)
    throw Unsupported({"no kernel is written for arrays in which sums stay",
                       {},
                       machine.name,
                       "core.array.dataflow weight_stationary or input_stationary",
                       {}});
  MmaForm form;
  form.batch = d.batch, form.taps = d.k_outer, form.depth = d.k;
  form.moving = kept == 1 ? d.m : d.n, form.across = kept == 1 ? d.n : d.m;
  form.moving_type = kept == 1 ? mma.a.dtype : mma.b.dtype, form.kept_type = kept == 1 ? mma.b.dtype : mma.a.dtype;
  form.accumulate = mma.accumulate;
  if (bits(mma.c.dtype) != 32)
    throw Unsupported({"kernels of products sum in 32 bits", {}, std::string(name(mma.c.dtype)), "f32, i32", {}});
  form.run = kept == 1 ? run_of(part(mma.a.dims, mma.batch_dims, mma.m_dims))
                       : run_of(part(mma.b.dims, mma.batch_dims + mma.k_dims, mma.n_dims));
  // rows that fill up registers follow the last row
  if (form.run > 1 && form.moving % form.run != 0) form.run = form.moving;
  return form;
}

InstructionLatency::InstructionLatency(const Machine& machine)
    : machine_(machine), table_(std::make_shared<PipelineTable>(set_of(machine), core_of(machine))) {}

TileLatency InstructionLatency::latency(const Descriptor& descriptor, const History& history,
                                        const ComputeSource& source) {
  taken_ = {};
  if (descriptor.kind == ComputeKind::mma) {
    if (descriptor.m <= 0 || descriptor.n <= 0 || descriptor.batch <= 0) return {};
    const TileCompute compute = source.compute();
    return product(std::get<Mma>(compute), descriptor, history);
  }
  if (descriptor.kind == ComputeKind::vector) {
    if (descriptor.elements <= 0) return {};
    const TileCompute compute = source.compute();
    return vector(std::get<VectorCompute>(compute), descriptor);
  }
  if (descriptor.kind == ComputeKind::opaque) {
    // declared cycles: the kernel's time on an idle core
    const TileCompute compute = source.compute();
    if (has_kernel(std::get<Opaque>(compute)))
      return {descriptor.duration, descriptor.duration, descriptor.duration,
              descriptor.duration, descriptor.duration, "its kernel"};
  }
  if (descriptor.kind == ComputeKind::permute) {
    if (descriptor.elements <= 0) return {};
    const TileCompute compute = source.compute();
    return permute(std::get<Permute>(compute));
  }
  if (descriptor.kind == ComputeKind::indexed) {
    if (descriptor.elements <= 0) return {};
    const TileCompute compute = source.compute();
    return indexed(std::get<Indexed>(compute));
  }
  if (descriptor.kind == ComputeKind::sort) {
    if (descriptor.elements <= 0 || descriptor.k <= 0) return {};
    const TileCompute compute = source.compute();
    return sort(std::get<tilesim::Sort>(compute));
  }
  throw Unsupported(
      {"no kernel is written for this kind of compute", {}, std::string(tilesim::name(descriptor.kind)), {}, {}});
}

/// The fastest kernel; if no kernel computes all results, the kernels of parts of them in sequence.
Kernel InstructionLatency::best_vector(const VectorCompute& compute) const {
  VectorAddresses at;
  auto next = [place = Address{1} << 24]() mutable { return place += Address{1} << 24; };
  for (std::size_t i = 0; i < compute.inputs.size(); ++i) at.inputs.push_back(next());
  for (std::size_t i = 0; i < compute.outputs.size(); ++i) at.outputs.push_back(next());
  for (std::size_t i = 0; i < compute.nodes.size(); ++i) at.counts.push_back(next());
  at.valid = next(), at.lanes_there = next();
  std::vector<Kernel> all;
  try {
    const std::int64_t lanes = machine_.core.vector.lanes;
    const std::vector<CoreTiming> cores = narrower_cores(table_->core, compute, lanes);
    for (std::size_t core = 0; core < cores.size(); ++core)
      for (VectorKernel& one : kernels_of_core(*table_->set, cores, core, compute, lanes, at)) {
        const bool known =
            std::any_of(all.begin(), all.end(), [&](const Kernel& other) { return other.words == one.kernel.words; });
        if (!known) all.push_back(std::move(one.kernel));
      }
  } catch (const Unsupported&) {
    const auto groups = groups_of_outputs(compute);
    if (groups.size() < 2) throw;
    Kernel together = best_vector(with_outputs(compute, groups[0]));
    for (std::size_t g = 1; g < groups.size(); ++g)
      together = behind(together, best_vector(with_outputs(compute, groups[g])));
    return together;
  }
  if (all.size() > 1) best(all), all = {taken_};
  return all[0];
}

TileLatency InstructionLatency::vector(const VectorCompute& compute, const Descriptor& d) const {
  TileLatency latency = best({best_vector(compute)});
  const TileLatency closed = vector_latency(machine_, d);
  latency.first = std::clamp<std::int64_t>(latency.done - (closed.done - closed.first), 1, latency.done);
  return latency;
}

TileLatency InstructionLatency::product(const Mma& mma, const Descriptor& d, const History& history) const {
  MmaForm form = form_of(machine_, mma, d);
  const MmaAddresses& at = timed_addresses;
  form.resident = history.weights_resident;
  const auto drained = [&](std::int64_t times) {
    MmaForm several = form;
    (form.resident ? several.moving : several.batch) *= times;
    DryRun run(table_, every_trip_);
    run.run(mma_kernel(*table_->set, table_->core, several, at));
    return run.pipeline().drain();
  };
  DryRun first(table_, every_trip_);
  first.run(mma_kernel(*table_->set, table_->core, form, at));
  const ArrayClock& array = first.pipeline().arrays()[0];
  const std::int64_t alone = first.pipeline().drain(), streamed = cycles_up(array.free());
  const TileLatency closed = array_latency(machine_, d, history);
  // when all rows would have left the array if no port were late and sums were stored at once
  const std::int64_t over = std::clamp(alone - (closed.done - closed.busy), std::min(alone, streamed), alone);
  TileLatency latency;
  latency.limit = busiest(first.pipeline()), latency.why = reason_of(first.pipeline(), {}, alone);
  latency.done = alone, latency.busy = over;
  const std::int64_t last_set = form.resident ? 0 : cycles_up(array.swapped());
  std::int64_t consumed = std::max<std::int64_t>(0, streamed - last_set);
  if (history.pipelined) {
    // a second product directly afterwards, in a joint steady schedule: time per additional work
    latency.busy = std::max<std::int64_t>(1, (drained(16) - drained(8)) / 8);
    latency.done = latency.busy + (alone - over);
  }
  consumed = std::min(consumed, latency.busy);
  latency.consumed = latency.busy;
  latency.weights_consumed = latency.busy - consumed;
  latency.first = std::clamp<std::int64_t>(latency.done - (closed.done - closed.first), 1, latency.done);
  return latency;
}

}  // namespace tilesim::isa
