#include "tilesim/isa/live/sequencer.hpp"

#include <algorithm>

#include "tilesim/base/error.hpp"

namespace tilesim::isa {

namespace {

std::int64_t up(Ticks t) { return (t + cycle - 1) / cycle; }

}  // namespace

Sequencer::Sequencer(std::shared_ptr<PipelineTable> table, CoreUnits& units, int number)
    : pipeline_(table, units), units_(&units), runs_{Run(table), Run(table)}, number_(number) {}

void Sequencer::start(const LiveKernel& kernel, std::uint64_t tag, std::int64_t at, std::vector<LiveEvent>& events) {
  require(idle(at), "a sequencer takes one kernel at a time");
  pipeline_.sleep(at * cycle);
  Run& run = runs_[begun_];
  run.kernel = &kernel, run.tag = tag, run.told = false, run.consumed = run.over = 0;
  run.hart.pc = live_code;
  run.hart.x[ra] = live_code + 4 * kernel.ops.size();
  turn_ = begun_, hold_ = 0;
  if (!pending_) reach(events);
}

void Sequencer::reserve(std::int64_t until) {
  reserved_ = until;
  if (!any()) pipeline_.sleep(until * cycle);
}

/// The kernel whose instruction is next. Pushes and results keep the order of kernels, because the next push would use
/// a complete set of weights.
std::size_t Sequencer::whose() const {
  const Run &begins = runs_[begun_], &ends = runs_[1 - begun_];
  if (ends.kernel == nullptr) return begun_;
  if (begins.kernel == nullptr) return 1 - begun_;
  const std::size_t at = begins.at();
  unsigned behind = LiveKernel::takes;
  if (ends.at() < ends.kernel->pushed) behind |= LiveKernel::pushes | LiveKernel::completes | LiveKernel::targets;
  const bool waits = at >= begins.kernel->drains || (begins.kernel->roles[at] & behind) != 0;
  return waits ? 1 - begun_ : turn_;
}

void Sequencer::tell_end(Run& run, std::vector<LiveEvent>& events) {
  const std::int64_t after = pipeline_.now() / cycle + 1;
  if (&run == &runs_[begun_]) events.push_back({run.tag, LiveEvent::free, after});
  events.push_back({run.tag, LiveEvent::done, std::max(after, up(run.over))});
  run.kernel = nullptr;
}

/// Executes scalar instructions up to the next one for the units; at the end of a kernel its times are final.
bool Sequencer::reach(std::vector<LiveEvent>& events) {
  const std::size_t before = events.size();
  while (any()) {
    const std::size_t who = whose();
    Run& run = runs_[who];
    const std::size_t at = run.at();
    const std::int64_t after = pipeline_.now() / cycle + 1;
    if (!run.told && at >= run.kernel->consumed)
      run.told = true, events.push_back({run.tag, LiveEvent::consumed, std::max(after, up(run.consumed))});
    if (at == run.kernel->ops.size()) {
      tell_end(run, events);
      return true;
    }
    if (at > run.kernel->ops.size() || (run.hart.pc & 3) != 0) throw InternalError("a kernel jumps out of itself");
    if (who == begun_ && at >= run.kernel->drains) {
      begun_ = 1 - begun_, turn_ = who, hold_ = after * cycle;
      events.push_back({run.tag, LiveEvent::free, after});
      return true;
    }
    const Op& op = run.kernel->ops[at];
    if (pipeline_.reach(op)) {
      issues_ = who, pending_ = true;
      return events.size() > before;
    }
    run.hart.pc += 4;
    if ((run.kernel->roles[at] & LiveKernel::carried) != 0) op.run(run.hart, op);
  }
  return events.size() > before;
}

bool Sequencer::advance(Ticks until, std::vector<LiveEvent>& events) {
  while (any() && next() < until) {
    if (!pending_) {
      if (reach(events)) return true;
      continue;
    }
    Run& run = runs_[issues_];
    const std::size_t at = run.at();
    const std::uint8_t part = run.kernel->roles[at];
    units_->past = pipeline_.now();
    pipeline_.take(run.kernel->ops[at], run.hart.v);
    pending_ = false;
    run.over = std::max(run.over, pipeline_.ended());
    if ((part & LiveKernel::reads) != 0) run.consumed = std::max(run.consumed, pipeline_.left());
    run.hart.pc += 4;
    // weights load between pushes of the previous kernel; after its last push they come first
    const unsigned own = pushing() ? LiveKernel::pushes | LiveKernel::weights : LiveKernel::pushes;
    const unsigned step = issues_ == begun_ ? own : run.kernel->step;
    if ((part & step) != 0) turn_ = 1 - issues_;
    if (reach(events)) return true;
  }
  return false;
}

}  // namespace tilesim::isa
