// Instructions whose later beats wait for an older, slower instruction's results, reads or writes.
#include <algorithm>

#include "tilesim/isa/pipeline/pipeline.hpp"

namespace tilesim::isa {

namespace {

/// Visits the known beats of an operand: register, lane 0 (first beat) or 1 (last beat), time from the start.
template <typename F>
void each_beat(const Footprint& f, F&& visit) {
  for (unsigned k = 0; k < f.registers; ++k) {
    const Ticks offset = k * f.each, within = k + 1U == f.registers ? f.last_within : f.within;
    visit(k, 0U, offset), visit(k, 1U, offset + within);
  }
}

}  // namespace

/// Computes the delay of each beat: that of its own dependences, or that of the previous beat.
void Pipeline::late_beats(const InstructionPlan& plan, const Op& op, Ticks start) {
  late_.clear();
  const auto add = [&](Ticks from, Ticks by) {
    if (by > 0) late_.push_back({from, by});
  };
  for (unsigned i = 0; i < plan.footprints; ++i) {
    const Footprint& f = plan.footprint[i];
    const unsigned base = f.register_in(op);
    each_beat(f, [&](unsigned k, unsigned lane, Ticks offset) {
      const std::array<Ticks, 4>& r = registers_[(base + k) & 31].in;
      if (f.reads) add(offset, r[lane] - offset - start);
      if (!f.writes) return;
      add(offset, r[lane] - offset - f.write.in[0] - start);
      add(offset, r[2 + lane] - offset - f.write.in[2] - start);
    });
  }
}

void Pipeline::record_late(const InstructionPlan& plan, const Op& op, Ticks start) {
  late_beats(plan, op, start);
  const auto at = [&](Ticks offset) {
    Ticks by = 0;
    for (const Late& late : late_)
      if (late.from <= offset) by = std::max(by, late.by);
    return start + offset + by;
  };
  for (unsigned i = 0; i < plan.footprints; ++i) {
    const Footprint& f = plan.footprint[i];
    const unsigned base = f.register_in(op);
    each_beat(f, [&](unsigned k, unsigned lane, Ticks offset) {
      std::array<Ticks, 4>& r = registers_[(base + k) & 31].in;
      if (f.writes)
        r[lane] = (f.whole ? at(plan.held) + offset - plan.held : at(offset)) + f.written;
      else
        r[2 + lane] = std::max(r[2 + lane], at(offset));
    });
  }
}

}  // namespace tilesim::isa
