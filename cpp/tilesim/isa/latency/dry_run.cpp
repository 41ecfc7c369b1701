#include "tilesim/isa/latency/dry_run.hpp"

#include <memory>

#include "tilesim/base/error.hpp"
#include "tilesim/base/interrupt.hpp"

namespace tilesim::isa {

namespace {

constexpr Address code_at = 0x10000;
constexpr std::size_t remembered = 12, most_trips = 96;
constexpr std::uint64_t few_trips = 4;

}  // namespace

/// Trips of one entry into a loop. When a state of the pipeline repeats, one more period is run from a copy, and the
/// remaining trips are extrapolated.
struct DryRun::Trips {
  std::vector<std::vector<Ticks>> states;
  std::size_t trip = 0, period = 0, since = 0;
  std::unique_ptr<Pipeline> before;
  std::array<std::uint64_t, 33> x{};
  bool over = false;
  void clear() {
    states.clear(), before.reset();
    trip = period = since = 0, over = false;
  }
};

DryRun::DryRun(std::shared_ptr<PipelineTable> table, bool every_trip)
    : set_(table->set), pipeline_(table), hart_(set_, table->core.vlen), every_trip_(every_trip) {}

void DryRun::pass_over(const KernelLoop& loop, Trips& trips) {
  const std::uint64_t left = hart_.x[loop.counter];
  if (trips.over || (trips.trip == 0 && left < few_trips)) return trips.over = true, void();
  if (++trips.trip > most_trips) return trips.over = true, void();
  if (trips.before != nullptr) {
    if (++trips.since < trips.period) return;
    const std::uint64_t each = trips.x[loop.counter] - left, times = each > 0 && left > 0 ? (left - 1) / each : 0;
    trips.over = true;
    if (times == 0) return;
    pipeline_.repeat(*trips.before, static_cast<std::int64_t>(times));
    for (std::size_t i = 1; i < 32; ++i) hart_.x[i] += (hart_.x[i] - trips.x[i]) * times;
    return;
  }
  std::vector<Ticks> state;
  pipeline_.state(state);
  for (std::size_t back = 1; back <= trips.states.size(); ++back) {
    if (trips.states[trips.states.size() - back] != state) continue;
    trips.period = back, trips.since = 0, trips.x = hart_.x;
    trips.before = std::make_unique<Pipeline>(pipeline_);
    return;
  }
  if (trips.states.size() == remembered) trips.states.erase(trips.states.begin());
  trips.states.push_back(std::move(state));
}

std::uint64_t DryRun::run(const Kernel& kernel) {
  std::vector<Op> ops;
  std::vector<std::uint8_t> carried(kernel.words.size());
  std::vector<int> ends(kernel.words.size(), -1);
  for (std::size_t i = 0; i < kernel.words.size(); ++i) {
    ops.push_back(set_->decode(kernel.words[i], code_at + 4 * i));
    const InstructionInfo& info = set_->info(ops.back().id);
    const bool vector = info.is(is_vector) && !info.is(sets_vl);
    carried[i] = !vector && !info.is(is_load) && !info.is(is_store) && info.unit != Unit::matrix ? 1 : 0;
  }
  for (std::size_t i = 0; i < kernel.loops.size(); ++i) ends[kernel.loops[i].end] = static_cast<int>(i);
  std::vector<Trips> trips(kernel.loops.size());
  const Address end = code_at + 4 * kernel.words.size();
  hart_.x[ra] = end;
  std::uint64_t done = 0;
  for (Address pc = code_at; pc != end; ++done) {
    if (pc < code_at || pc > end || (pc & 3) != 0) throw InternalError("a kernel jumps out of itself");
    const std::size_t at = (pc - code_at) / 4;
    const Op& op = ops[at];
    if ((done & 0xFFF) == 0) worked(0x1000);
    pipeline_.issue(op, hart_.v);
    hart_.pc = pc + 4;
    if (carried[at] != 0) op.run(hart_, op);
    pc = hart_.pc;
    if (every_trip_ || ends[at] < 0) continue;
    const auto loop = static_cast<std::size_t>(ends[at]);
    if (pc == code_at + 4 * kernel.loops[loop].begin)
      pass_over(kernel.loops[loop], trips[loop]);
    else
      trips[loop].clear();
  }
  return done;
}

}  // namespace tilesim::isa
