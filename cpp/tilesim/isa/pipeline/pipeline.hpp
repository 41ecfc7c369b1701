// Timing of instructions: a scalar front end in program order, queues, pipes that process register beats, and memory
// ports. Each instruction is processed once, when it issues; the model does not step through cycles.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tilesim/isa/pipeline/memory_order.hpp"
#include "tilesim/isa/pipeline/plan.hpp"
#include "tilesim/isa/pipeline/units.hpp"

namespace tilesim::isa {

struct UnitTimes {
  std::string name;
  StateTimes in{};
};

/// Data independent of history, computed at the first use, for pipelines of one core or of equal cores. Use it in one
/// thread.
struct PipelineTable {
  PipelineTable(std::shared_ptr<const InstructionSet> set, CoreTiming core);

  std::shared_ptr<const InstructionSet> set;
  CoreTiming core;
  std::vector<StaticTiming> fixed;     ///< by instruction
  std::vector<InstructionPlan> plans;  ///< by hash of the plans' keys
};

/// Times instructions after their execution: as an Observer of a Hart, or from a list of decoded instructions. It owns
/// front end, registers and queues, and the core's units unless several sequencers share these.
class Pipeline final : public Observer {
 public:
  Pipeline(std::shared_ptr<const InstructionSet> set, CoreTiming core);
  explicit Pipeline(std::shared_ptr<PipelineTable> table);
  /// `shared` must outlive it.
  Pipeline(std::shared_ptr<PipelineTable> table, CoreUnits& shared);

  /// With addresses: includes DMA time, and orders loads and stores of the same bytes.
  void issue(const Op& op, const Hart& before) override {
    hart_ = &before;
    issue(op, before.v);
    hart_ = nullptr;
  }
  void issue(const Op& op, const VectorState& v) {
    if (op.id >= table_->fixed.size()) [[unlikely]]
      return;  // not an instruction: it traps
    if (recorders_.empty()) [[likely]]
      return time(op, v);
    recorded(op, v);
  }
  void trapped(const Op& op) override;
  std::int64_t cycles() const override { return now_ / cycle; }
  bool moved(std::uint64_t ticket, unsigned queue) const override { return tickets_.over(ticket, queue); }
  /// Two steps for a sequencer: `reach` advances the front end to an instruction and executes it if the front end can.
  /// Otherwise the instruction issues at `now()` by `take`, before any later instruction.
  bool reach(const Op& op);
  void take(const Op& op, const VectorState& v);
  /// Makes the front end idle until the given time.
  void sleep(Ticks until) { wait(until, State::starved); }
  /// Reports every later instruction; the recorder must outlive the pipeline's use.
  void watch(Recorder& recorder) {
    recorders_.push_back(&recorder);
    waits_ |= recorder.wants_waits();
  }
  /// Cycles until all issued instructions have completed.
  std::int64_t drain() const;
  /// Times of front end and pipes, until `drain()`.
  std::vector<UnitTimes> units() const;
  std::uint64_t instructions() const { return instructions_; }
  const CoreTiming& core() const { return table_->core; }
  const InstructionSet& set() const { return *table_->set; }
  const std::vector<ArrayClock>& arrays() const { return of_core().arrays; }
  /// "arithmetic", or "arithmetic0" if there are several pipes. `unit`: a PipeKind, or beyond these a unit of the core.
  std::string unit_called(std::size_t unit, std::size_t pipe) const;

  Ticks now() const { return now_; }
  Ticks over() const { return std::max(end_, now_ + (used_ != 0 ? cycle : 0)); }  ///< end of all issued instructions
  Ticks left() const { return left_; }    ///< time at which the last vector instruction's pipe is free
  Ticks ended() const { return ended_; }  ///< time at which the last vector instruction completes
  /// All state that affects later instructions, as times from now: pipelines with equal states behave alike.
  void state(std::vector<Ticks>& to) const;
  /// Skips `times` repetitions of the time since `before`; only without other sequencers.
  void repeat(const Pipeline& before, std::int64_t times);

 private:
  using Pipe = CoreUnits::Pipe;
  /// Earliest start times of an instruction: for its first beat, and such that no beat waits.
  struct Bounds {
    Ticks operands = 0, registers = 0, first_operands = 0, first_registers = 0;
    Ticks all() const { return std::max(operands, registers); }
  };
  struct Queue {
    std::array<Ticks, 64> starts{};
    unsigned entries = 8, next = 0;
    Ticks last = 0;
  };

  CoreUnits& of_core() { return shared_ != nullptr ? *shared_ : own_; }
  const CoreUnits& of_core() const { return shared_ != nullptr ? *shared_ : own_; }
  void make_queues();
  void time(const Op& op, const VectorState& v) {
    if (reach(op)) take(op, v);
  }
  void recorded(const Op& op, const VectorState& v);
  void follow(const Op& op);  ///< resolves the preceding control instruction
  void wait(Ticks until, State why);
  void take_slot();
  void await_memory(const Op& op, const StaticTiming& fixed);
  void await_transfer(const Op& op, const StaticTiming& fixed);
  void transfer(const Op& op);
  void await_place(const StaticTiming& fixed);
  Queue& queue_of(const StaticTiming& fixed) {
    return queues_[core().decoupled || fixed.pipe >= pipe_kinds ? fixed.pipe : 0];
  }
  /// Starts an instruction at a pipe of this core, or at a shared pipe.
  CoreUnits::PipeSlot begin(const Op& op, const StaticTiming& fixed, const InstructionPlan& plan, const VectorState& v,
                            const Bounds& bound);
  CoreUnits::PipeSlot begin_shared(const StaticTiming& fixed, const InstructionPlan& plan, const Bounds& bound);
  std::int64_t array_rows(ArrayWork work, const VectorState& v) const;
  const InstructionPlan& plan_for(const Op& op, const StaticTiming& fixed, const VectorState& v);
  Lanes latest(unsigned base, const Footprint& f, const Lanes& first, const Lanes& last) const;
  Bounds bounds(const InstructionPlan& plan, const Op& op) const;
  void record(const InstructionPlan& plan, const Op& op, Ticks start);
  /// The same for an instruction with delayed beats.
  void record_late(const InstructionPlan& plan, const Op& op, Ticks start);
  void late_beats(const InstructionPlan& plan, const Op& op, Ticks start);
  std::size_t choose(unsigned unit, unsigned allowed) const;

  std::shared_ptr<PipelineTable> table_;
  CoreUnits* shared_ = nullptr;  ///< null: uses `own_`
  CoreUnits own_;

  Ticks now_ = 0;  ///< cycle of the front end
  unsigned used_ = 0, dispatched_ = 0, accesses_ = 0;
  StateTimes front_{};
  std::array<Ticks, 66> ready_{};  ///< x, its sink, f
  Ticks vset_ready_ = 0;
  std::array<Ticks, dividers> divided_{};  ///< time at which each divider is free
  std::array<Lanes, 32> registers_{};
  std::vector<Queue> queues_;  ///< one per pipe kind and unit
  /// Delay of the current instruction: beats from `from` on (in time without delay) are late by `by`.
  struct Late { Ticks from = 0, by = 0; };
  std::vector<Late> late_;
  const Hart* hart_ = nullptr;  ///< set during `issue` if known: gives addresses and bytes moved
  MemoryOrder memory_;
  Ticks end_ = 0, left_ = 0, ended_ = 0;
  std::uint64_t instructions_ = 0;
  Tickets tickets_;
  // the preceding control instruction
  bool control_ = false, conditional_ = false, backward_ = false;
  std::uint64_t after_ = 0;
  // for recorders
  std::vector<Recorder*> recorders_;
  bool waits_ = false;
  StateTimes was_{};
  const InstructionPlan* plan_ = nullptr;
  PipeTimes times_;
  Ticks done_ = 0;
};

}  // namespace tilesim::isa
