#include "tilesim/isa/live/kernel.hpp"

#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/isa/latency/dry_run.hpp"
#include "tilesim/isa/latency/latency.hpp"

namespace tilesim::isa {

LiveKernel::LiveKernel(const InstructionSet& set, const Kernel& kernel, bool product) : parts(kernel.words.size()) {
  std::size_t last = 0;
  for (std::size_t i = 0; i < kernel.words.size(); ++i) {
    ops.push_back(set.decode(kernel.words[i], live_code + 4 * i));
    const Op& op = ops.back();
    const InstructionInfo& info = set.info(op.id);
    const bool vector = info.is(is_vector) && !info.is(sets_vl);
    if (!vector && !info.is(is_load) && !info.is(is_store) && info.unit != Unit::matrix) parts[i] |= carried;
    // sums that a product adds to are no operand: they stay until they are committed
    if (!vector || !info.is(is_load) || (product && op.rs1 != a0 && op.rs1 != a1)) continue;
    parts[i] |= reads, last = i + 1;
  }
  consumed = last;
  for (const KernelLoop& loop : kernel.loops)
    if (loop.begin < last) consumed = std::max(consumed, loop.end + 1);
}

LiveKernels::LiveKernels(const Machine& machine)
    : machine_(machine), table_(std::make_shared<PipelineTable>(InstructionSet::standard(), core_of(machine))) {}

std::int64_t LiveKernels::sets_of(const Descriptor& d, const ComputeSource& source) {
  const auto [place, fresh] = sets_.try_emplace(d.signature, 0);
  if (!fresh) return place->second;
  try {
    const TileCompute compute = source.compute();
    const MmaForm form = form_of(machine_, std::get<Mma>(compute), d);
    const ArrayTiming& array = table_->core.array;
    place->second =
        form.batch * form.taps * ceil_div(form.depth, array.rows) * ceil_div(form.across, array.columns);
  } catch (const Unsupported&) {
  }
  return place->second;
}

std::vector<Kernel> LiveKernels::choices(const Descriptor& d, const TileCompute& compute, unsigned array,
                                         bool resident) const {
  const InstructionSet& set = *table_->set;
  std::vector<Kernel> all;
  if (const auto* mma = std::get_if<Mma>(&compute)) {
    MmaForm form = form_of(machine_, *mma, d);
    form.resident = resident;
    all.push_back(mma_kernel(set, table_->core, form, {Address{1} << 24, Address{1} << 34, Address{1} << 38}, array));
  } else if (const auto* vector = std::get_if<VectorCompute>(&compute)) {
    VectorAddresses at;
    auto next = [place = Address{1} << 24]() mutable { return place += Address{1} << 24; };
    for (std::size_t i = 0; i < vector->inputs.size(); ++i) at.inputs.push_back(next());
    for (std::size_t i = 0; i < vector->outputs.size(); ++i) at.outputs.push_back(next());
    for (std::size_t i = 0; i < vector->nodes.size(); ++i) at.counts.push_back(next());
    at.valid = next();
    for (VectorKernel& one : vector_kernels(set, table_->core, *vector, machine_.core.vector.lanes, at))
      all.push_back(std::move(one.kernel));
  } else {
    throw Unsupported({"no kernel is written for this kind of compute", {}, std::string(name(d.kind)), {}, {}});
  }
  return all;
}

/// The one that the level "instruction" would take: least alone and behind another.
const Kernel& LiveKernels::best(const std::vector<Kernel>& of) const {
  const Kernel* found = &of.front();
  std::int64_t least = INT64_MAX;
  for (std::size_t i = 0; i < of.size() && of.size() > 1; ++i) {
    DryRun run(table_->set, table_->core);
    run.run(of[i]);
    const std::int64_t alone = run.pipeline().drain();
    run.run(of[i]);
    const std::int64_t sum = alone + std::clamp<std::int64_t>(run.pipeline().drain() - alone, 1, alone);
    if (sum < least) least = sum, found = &of[i];
  }
  return *found;
}

const LiveKernel* LiveKernels::find(const Descriptor& d, const ComputeSource& source, unsigned array, bool resident,
                                    std::string& why) {
  const auto [place, fresh] = known_.try_emplace({d.signature, array, resident});
  Known& known = place->second;
  if (fresh) {
    try {
      const bool product = d.kind == ComputeKind::mma;
      const std::vector<Kernel> all = choices(d, source.compute(), array, resident);
      known.kernel = std::make_unique<const LiveKernel>(*table_->set, best(all), product);
    } catch (const Unsupported& error) {
      known.why = error.parts().what;
    }
  }
  why = known.why;
  return known.kernel.get();
}

}  // namespace tilesim::isa
