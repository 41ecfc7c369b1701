#include "tilesim/engine/live/live.hpp"

#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/tile/latency_book.hpp"

namespace tilesim::engine {

namespace {

constexpr int first_vector = 64, first_cross_lane = 128;  // numbers of the first sequencers; arrays start at 0

int sequencer_of(const Compute& compute) {
  const auto number = static_cast<int>(std::max<std::int64_t>(compute.number, 0));
  if (compute.kind == UnitKind::array) return number;
  return (compute.kind == UnitKind::vector ? first_vector : first_cross_lane) + number;
}

/// Whether a compute has no elements, in which case no kernel runs.
bool is_nothing(const Descriptor& d) {
  if (d.kind == ComputeKind::mma) return d.m <= 0 || d.n <= 0 || d.batch <= 0;
  return d.kind != ComputeKind::opaque && (d.elements <= 0 || (d.kind == ComputeKind::sort && d.k <= 0));
}

/// Whether several queues share this kind of pipe. An array's pipes belong to one queue, whose unit shows their work.
bool is_shared(std::size_t kind) {
  return kind < isa::pipe_kinds && kind != static_cast<std::size_t>(isa::PipeKind::matrix) &&
         kind != static_cast<std::size_t>(isa::PipeKind::results);
}

}  // namespace

LiveCores::Kind::Kind(const Machine& whole, const Machine& of)
    : kernels(of), closed_form(of), base(whole.core.clock), clock(of.core.clock) {}

std::int64_t LiveCores::Kind::own(std::int64_t now) const {
  if (clock.hertz == base.hertz) return now;
  return static_cast<std::int64_t>(static_cast<Int128>(now) * clock.hertz / static_cast<Int128>(base.hertz));
}

std::int64_t LiveCores::Kind::own_end(std::int64_t end) const {
  return clock.hertz == base.hertz ? end : own(end - 1) + 1;
}

std::int64_t LiveCores::Kind::chip(std::int64_t cycle) const {
  return clock.hertz == base.hertz ? cycle : cycles_at_or_after({cycle, clock.hertz}, base);
}

LiveCores::LiveCores(const Machine& machine) {
  const auto add = [&](const Machine& of, std::int64_t count) {
    kinds_.push_back(std::make_unique<Kind>(machine, of));
    of_core_.insert(of_core_.end(), at(count), kinds_.back().get());
  };
  if (machine.sorts.empty()) add(machine, machine.core.count);
  for (const CoreSort& sort : machine.sorts) add(machine.only(sort.name), sort.core.count);
  cores_.resize(of_core_.size());
}

bool LiveCores::takes(std::int64_t /*core*/, UnitKind kind) const {
  return kind == UnitKind::array || kind == UnitKind::vector || kind == UnitKind::cross_lane;
}

LiveCores::Core& LiveCores::core(std::int64_t number) {
  std::unique_ptr<Core>& found = cores_[at(number)];
  if (!found) {
    found = std::make_unique<Core>(number, *of_core_[at(number)]);
    list_pipes(*found);
  }
  return *found;
}

void LiveCores::attach(Units& units, Timeline& timeline) {
  units_ = &units, timeline_ = &timeline;
  label_ = timeline.text("kernels");
}

/// Adds pipes and ports to the run's units, so that results contain their counters and intervals.
void LiveCores::list_pipes(Core& core) {
  if (!units_) return;
  isa::CoreUnits& own = core.live.units();
  own.shows = timeline_->wanted();
  for (std::size_t kind = 0; kind < own.pipes.size(); ++kind) {
    core.units.emplace_back();
    for (std::size_t i = 0; i < own.pipes[kind].size() && is_shared(kind); ++i) {
      const std::string name = std::string("pipe.") + isa::pipe_name(static_cast<isa::PipeKind>(kind));
      core.units.back().push_back(units_->find(core.number, units_->sort(name + std::to_string(i))));
    }
  }
}

/// Adds complete intervals to the timeline. The last interval may continue, unless nothing is left to issue (`all`).
void LiveCores::show_pipes(Core& core, bool all) {
  isa::CoreUnits& own = core.live.units();
  for (std::size_t kind = 0; kind < core.units.size(); ++kind)
    for (std::size_t i = 0; i < core.units[kind].size(); ++i) {
      isa::CoreUnits::Pipe& pipe = own.pipes[kind][i];
      Unit& unit = (*units_)[core.units[kind][i]];
      unit.cycles[static_cast<std::size_t>(UnitState::busy)] = core.kind->chip(pipe.busy / isa::cycle);
      unit.operations = pipe.operations;
      const std::size_t over = pipe.shown.size() - (all || pipe.shown.empty() ? 0 : 1);
      for (std::size_t k = 0; k < over; ++k)
        timeline_->add(core.units[kind][i], label_, core.kind->chip(pipe.shown[k].start / isa::cycle),
                       core.kind->chip((pipe.shown[k].end + isa::cycle - 1) / isa::cycle));
      pipe.shown.erase(pipe.shown.begin(), pipe.shown.begin() + static_cast<std::ptrdiff_t>(over));
    }
}

/// Whether the array still contains the compute's weights (of several sets, only the last remains); records the
/// compute.
bool LiveCores::fits_resident(Core& core, const Compute& compute, unsigned array) {
  Array& held = core.arrays[static_cast<int>(array)];
  const bool same = held.whole && held.stream == compute.stream && held.weights == compute.weights && held.weights >= 0;
  held = {compute.stream, compute.weights, core.kind->kernels.sets_of(*compute.descriptor, *compute.source) == 1};
  return same && held.whole;
}

Offered LiveCores::offer(const Compute& compute, std::uint64_t tag, std::int64_t now) {
  Core& own = core(compute.core);
  isa::Sequencer& sequencer = own.live.sequencer(sequencer_of(compute));
  const std::int64_t cycle = own.kind->own(now);
  std::int64_t until = INT64_MAX;
  if (!sequencer.idle(cycle)) return Offered::refuse(0);
  require(compute.source != nullptr, "a compute of a live core has no source");
  const std::string text = compute_text(*compute.descriptor, {});
  under_way_[tag] = {text, now, compute.unit};
  const bool product = compute.descriptor->kind == ComputeKind::mma;
  const auto array = static_cast<unsigned>(product && compute.kind == UnitKind::array ? sequencer.number() : 0);
  if (is_nothing(*compute.descriptor)) {
    begin_closed(own, sequencer, compute, tag, cycle);
    tell(own, until);
    return Offered::later();
  }
  const bool resident = product && fits_resident(own, compute, array);
  std::string why;
  if (const isa::LiveKernel* kernel =
          own.kind->kernels.find(*compute.descriptor, *compute.source, array, resident, why)) {
    sequencer.start(*kernel, tag, cycle, events_);
  } else {
    report_.refused.try_emplace(text, why);
    begin_closed(own, sequencer, compute, tag, cycle);
  }
  tell(own, until);
  if (!own.busy && own.live.next() >= 0) own.busy = true, busy_.push_back(&own);
  return Offered::later();
}

/// Reserves the queue for the closed form's time from cycle `at` on.
void LiveCores::begin_closed(Core& core, isa::Sequencer& sequencer, const Compute& compute, std::uint64_t tag,
                             std::int64_t at) {
  const TileLatency latency = core.kind->closed_form.latency(*compute.descriptor, compute.history, no_source());
  sequencer.reserve(at + latency.busy);
  events_.push_back({tag, isa::LiveEvent::consumed, at + latency.consumed});
  events_.push_back({tag, isa::LiveEvent::free, at + latency.busy});
  events_.push_back({tag, isa::LiveEvent::done, at + latency.done});
}

/// Turns events of a core into answers. After the first answer, no core may issue instructions.
void LiveCores::tell(Core& core, std::int64_t& until) {
  for (const isa::LiveEvent& event : events_) {
    const std::int64_t cycle = core.kind->chip(event.cycle);
    until = std::min(until, cycle);
    Done::Milestone part = Done::Milestone::complete;
    if (event.kind == isa::LiveEvent::consumed) part = Done::Milestone::operands_read;
    if (event.kind == isa::LiveEvent::free) part = Done::Milestone::unit_free;
    if (event.kind == isa::LiveEvent::done) over(event.tag, cycle);
    milestones_.push_back({event.tag, cycle, part});
  }
  events_.clear();
}

void LiveCores::over(std::uint64_t tag, std::int64_t cycle) {
  const auto found = under_way_.find(tag);
  std::int64_t& last = ended_[found->second.unit];
  ComputeReport::Ran& ran = report_.computes[found->second.text];
  ++ran.count, ran.cycles += std::max<std::int64_t>(0, cycle - std::max(found->second.started, last));
  last = std::max(last, cycle);
  under_way_.erase(found);
}

void LiveCores::drain(std::int64_t until, CancelToken* cancel, std::vector<Done>& done) {
  for (const Done& one : milestones_) until = std::min(until, one.cycle);
  while (!busy_.empty()) {
    Core* first = nullptr;
    std::int64_t at_first = until, second = until;
    for (Core* const one : busy_) {
      const std::int64_t next = one->kind->chip(one->live.next());
      if (next < at_first)
        second = at_first, at_first = next, first = one;
      else
        second = std::min(second, next);
    }
    if (first == nullptr) break;
    // Other cores cannot report events before the end of cycle `second`.
    const std::int64_t limit = std::min(until, second + 1);
    first->live.advance(first->kind->own_end(limit), events_);
    tell(*first, until);
    if (first->live.next() < 0) first->busy = false, std::erase(busy_, first);
    if (units_ && !first->busy) show_pipes(*first, true);
    if (cancel) cancel->poll();
  }
  done.insert(done.end(), milestones_.begin(), milestones_.end());
  milestones_.clear();
}

ComputeReport LiveCores::report() const {
  ComputeReport report = report_;
  report.approximations = {
      "tile computes: kernels; arrays, vector and cross-lane queues of a core issue side by side and share its pipes "
      "and "
      "scratchpad ports, first come first served",
      "tile computes: kernels find operands in blocks; scratchpad banks are not modelled, DMA does not take the ports"};
  return report;
}

}  // namespace tilesim::engine
