#include "tilesim/isa/live/kernel.hpp"

#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"

namespace tilesim::isa {

namespace {

/// The first instruction from `place` on that follows the end of every loop that begins before `place`.
std::size_t behind_loops(const Kernel& kernel, std::size_t place) {
  std::size_t found = place;
  for (const KernelLoop& loop : kernel.loops)
    if (loop.begin < place) found = std::max(found, loop.end + 1);
  return found;
}

}  // namespace

LiveKernel::LiveKernel(const InstructionSet& set, const Kernel& kernel, bool product) : roles(kernel.words.size()) {
  std::size_t last = 0;
  for (std::size_t i = 0; i < kernel.words.size(); ++i) {
    ops.push_back(set.decode(kernel.words[i], live_code + 4 * i));
    const Op& op = ops.back();
    const InstructionInfo& info = set.info(op.id);
    const bool vector = info.is(is_vector) && !info.is(sets_vl);
    if (info.timing == "array-push") roles[i] |= pushes;
    if (info.timing == "array-weights") roles[i] |= weights;
    if (info.timing == "array-target") roles[i] |= targets;
    if (info.timing == "array-pop") roles[i] |= takes;
    if (vector && info.is(is_store)) roles[i] |= stores;
    if (!vector && !info.is(is_load) && !info.is(is_store) && info.unit != Unit::matrix) roles[i] |= carried;
    // sums to which a product adds are not operands: they stay until the commit
    if (!vector || !info.is(is_load) || (product && op.rs1 != a0 && op.rs1 != a1)) continue;
    roles[i] |= reads, last = i + 1;
  }
  consumed = behind_loops(kernel, last);
  find_end(kernel);
}

void LiveKernel::find_end(const Kernel& kernel) {
  drains = pushed = ops.size();
  const auto is = [&](std::size_t i, Role part) { return (roles[i] & part) != 0; };
  std::size_t first = 0, last_set = 0, last = 0, end = 0;  // indices of the following instructions
  for (std::size_t i = ops.size(); i-- > 0;)
    if (is(i, pushes)) first = i + 1, last = std::max(last, i + 1);
  if (last == 0) return;
  for (std::size_t i = 0; i < ops.size(); ++i)
    if (is(i, weights)) last_set = i + 1;
  for (std::size_t i = first; i-- > 0;)
    if (is(i, weights)) {
      roles[i] |= completes;
      break;
    }
  for (end = last_set; end < last && !is(end, pushes);) ++end;
  if (std::none_of(roles.begin(), roles.end(), [](std::uint8_t part) { return (part & takes) != 0; })) step = pushes;
  pushed = behind_loops(kernel, last), drains = std::min(pushed, behind_loops(kernel, std::min(end + 1, last)));
}

LiveKernels::LiveKernels(const Machine& machine) : machine_(machine), alone_(machine) {}

std::int64_t LiveKernels::sets_of(const Descriptor& d, const ComputeSource& source) {
  const auto [place, fresh] = sets_.try_emplace(d.signature, 0);
  if (!fresh) return place->second;
  try {
    const TileCompute compute = source.compute();
    const MmaForm form = form_of(machine_, std::get<Mma>(compute), d);
    const ArrayTiming& array = table()->core.array;
    place->second = form.batch * form.taps * ceil_div(form.depth, array.rows) * ceil_div(form.across, array.columns);
  } catch (const Unsupported&) {
  }
  return place->second;
}

/// Picks the kernel that is fastest standalone, if a compute has several.
Kernel LiveKernels::choose(const Descriptor& d, const ComputeSource& source, unsigned array, bool resident) {
  if (d.kind != ComputeKind::mma) {
    alone_.latency(d, {}, source);
    if (alone_.taken().words.empty())
      throw Unsupported({"its kernel runs on separate memory: its declared cycles are used", {}, {}, {}, {}});
    return alone_.taken();
  }
  const TileCompute compute = source.compute();
  MmaForm form = form_of(machine_, std::get<Mma>(compute), d);
  form.resident = resident;
  return mma_kernel(*table()->set, table()->core, form, timed_addresses, array);
}

const LiveKernel* LiveKernels::find(const Descriptor& d, const ComputeSource& source, unsigned array, bool resident,
                                    std::string& why) {
  const auto [place, fresh] = cached_.try_emplace({d.signature, array, resident});
  CachedKernel& known = place->second;
  if (fresh) {
    try {
      known.kernel = std::make_unique<const LiveKernel>(*table()->set, choose(d, source, array, resident),
                                                        d.kind == ComputeKind::mma);
    } catch (const Unsupported& error) {
      known.why = error.parts().what;
    }
  }
  why = known.why;
  return known.kernel.get();
}

}  // namespace tilesim::isa
