#include "tilesim/isa/live/sequencer.hpp"

#include <algorithm>

#include "tilesim/base/error.hpp"

namespace tilesim::isa {

namespace {

std::int64_t up(Ticks t) { return (t + cycle - 1) / cycle; }

}  // namespace

Sequencer::Sequencer(std::shared_ptr<PipelineTable> table, CoreUnits& units, int number)
    : pipeline_(table, units), units_(&units), hart_(table->set, table->core.vlen), number_(number) {}

void Sequencer::start(const LiveKernel& kernel, std::uint64_t tag, std::int64_t at, std::vector<LiveEvent>& events) {
  require(idle(at), "a sequencer is given two kernels at a time");
  pipeline_.sleep(at * cycle);
  kernel_ = &kernel, tag_ = tag, told_ = false;
  hart_.pc = live_code;
  hart_.x[ra] = live_code + 4 * kernel.ops.size();
  reach(events);
}

void Sequencer::reserve(std::int64_t until) {
  reserved_ = until;
  pipeline_.sleep(until * cycle);
}

/// Scalar instructions up to the next for the units; at the end of the kernel all of its times are known.
bool Sequencer::reach(std::vector<LiveEvent>& events) {
  const std::size_t before = events.size();
  for (;;) {
    const std::size_t at = (hart_.pc - live_code) / 4;
    const std::int64_t after = pipeline_.now() / cycle + 1;
    if (!told_ && at >= kernel_->consumed)
      told_ = true, events.push_back({tag_, LiveEvent::consumed, std::max(after, up(consumed_))});
    if (at == kernel_->ops.size()) {
      events.push_back({tag_, LiveEvent::free, after});
      events.push_back({tag_, LiveEvent::done, std::max(after, up(pipeline_.over()))});
      kernel_ = nullptr;
      return true;
    }
    if (at > kernel_->ops.size() || (hart_.pc & 3) != 0) throw InternalError("a kernel jumps out of itself");
    const Op& op = kernel_->ops[at];
    at_ = at;
    if (pipeline_.reach(op)) return events.size() > before;
    hart_.pc += 4;
    if ((kernel_->parts[at] & LiveKernel::carried) != 0) op.run(hart_, op);
  }
}

bool Sequencer::advance(Ticks until, std::vector<LiveEvent>& events) {
  while (kernel_ != nullptr && pipeline_.now() < until) {
    units_->past = pipeline_.now();
    pipeline_.take(kernel_->ops[at_], hart_.v);
    if ((kernel_->parts[at_] & LiveKernel::reads) != 0) consumed_ = std::max(consumed_, pipeline_.left());
    hart_.pc += 4;
    if (reach(events)) return true;
  }
  return false;
}

}  // namespace tilesim::isa
