// Timing of instructions: a scalar front end in program order, queues, pipes that work on register beats, and memory
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

/// What does not depend on what ran before, for pipelines of one core or of many alike: found when it is first needed.
/// One thread at a time.
struct PipelineTable {
  PipelineTable(std::shared_ptr<const InstructionSet> set, CoreTiming core);

  std::shared_ptr<const InstructionSet> set;
  CoreTiming core;
  std::vector<StaticTiming> fixed;     ///< by instruction
  std::vector<InstructionPlan> plans;  ///< by a hash of their keys
};

/// Timing follows execution: an Observer of a Hart, or fed from a list of decoded instructions. Front end, registers
/// and queues are its own; the core's units are too, unless it is one of several sequencers that share them.
class Pipeline final : public Observer {
 public:
  Pipeline(std::shared_ptr<const InstructionSet> set, CoreTiming core);
  explicit Pipeline(std::shared_ptr<PipelineTable> table);
  /// `shared` outlives it.
  Pipeline(std::shared_ptr<PipelineTable> table, CoreUnits& shared);

  /// With addresses: DMA takes its time, loads and stores keep their order where they touch the same bytes.
  void issue(const Op& op, const Hart& before) override {
    hart_ = &before;
    issue(op, before.v);
    hart_ = nullptr;
  }
  void issue(const Op& op, const VectorState& v) {
    if (op.id >= table_->fixed.size()) [[unlikely]]
      return;  // bits that are not an instruction: it traps
    if (recorders_.empty()) [[likely]]
      return time(op, v);
    recorded(op, v);
  }
  void trapped(const Op& op) override;
  std::int64_t cycles() const override { return now_ / cycle; }
  bool moved(std::uint64_t ticket, unsigned queue) const override { return tickets_.over(ticket, queue); }
  /// In two steps, of a sequencer: `reach` lets the front end come to an instruction and carries it out unless it is
  /// one for the units; such a one issues at `now()`, by `take`, before anything else is reached.
  bool reach(const Op& op);
  void take(const Op& op, const VectorState& v);
  /// The front end does nothing before.
  void sleep(Ticks until) { wait(until, State::starved); }
  /// From here on it is told of every instruction; it outlives the pipeline's use.
  void watch(Recorder& recorder) {
    recorders_.push_back(&recorder);
    waits_ |= recorder.wants_waits();
  }
  /// Cycles until all that was issued is over.
  std::int64_t drain() const;
  /// Front end and pipes, until `drain()`.
  std::vector<UnitTimes> units() const;
  std::uint64_t instructions() const { return instructions_; }
  const CoreTiming& core() const { return table_->core; }
  const InstructionSet& set() const { return *table_->set; }
  const std::vector<ArrayClock>& arrays() const { return of_core().arrays; }
  /// "arithmetic", or "arithmetic0" where there are several: of a PipeKind, or behind those a unit of the core's own.
  std::string unit_called(std::size_t unit, std::size_t pipe) const;

  Ticks now() const { return now_; }
  Ticks over() const { return std::max(end_, now_ + (used_ != 0 ? cycle : 0)); }  ///< all that was issued
  Ticks left() const { return left_; }    ///< the last vector instruction's pipe
  Ticks ended() const { return ended_; }  ///< the last vector instruction is over
  /// All that later instructions can notice, as times from now: equal ones go on alike.
  void state(std::vector<Ticks>& to) const;
  /// Lets `times` repetitions of the time since `before` pass at once; for a core without neighbours.
  void repeat(const Pipeline& before, std::int64_t times);

 private:
  using Pipe = CoreUnits::Pipe;
  /// When an instruction may start: for its first beat alone, and so that no beat has to wait.
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
  void follow(const Op& op);  ///< what the branch before turned out to be
  void wait(Ticks until, State why);
  void take_slot();
  void await_memory(const Op& op, const StaticTiming& fixed);
  void await_transfer(const Op& op, const StaticTiming& fixed);
  void transfer(const Op& op);
  void await_place(const StaticTiming& fixed);
  Queue& queue_of(const StaticTiming& fixed) {
    return queues_[core().decoupled || fixed.pipe >= pipe_kinds ? fixed.pipe : 0];
  }
  /// Where and when an instruction starts at a pipe of its core, and at a shared one.
  CoreUnits::PipeSlot begin(const Op& op, const StaticTiming& fixed, const InstructionPlan& plan, const VectorState& v,
                            const Bounds& bound);
  CoreUnits::PipeSlot begin_shared(const StaticTiming& fixed, const InstructionPlan& plan, const Bounds& bound);
  std::int64_t array_rows(ArrayWork work, const VectorState& v) const;
  const InstructionPlan& plan_for(const Op& op, const StaticTiming& fixed, const VectorState& v);
  Lanes latest(unsigned base, const Footprint& f, const Lanes& first, const Lanes& last) const;
  Bounds bounds(const InstructionPlan& plan, const Op& op) const;
  void record(const InstructionPlan& plan, const Op& op, Ticks start);
  /// The same of one whose later beats wait for what they read, or write over.
  void record_late(const InstructionPlan& plan, const Op& op, Ticks start);
  void late_beats(const InstructionPlan& plan, const Op& op, Ticks start);
  std::size_t choose(unsigned unit, unsigned allowed) const;

  std::shared_ptr<PipelineTable> table_;
  CoreUnits* shared_ = nullptr;  ///< null: `own_`
  CoreUnits own_;

  Ticks now_ = 0;  ///< the front end's cycle
  unsigned used_ = 0, dispatched_ = 0, accesses_ = 0;
  StateTimes front_{};
  std::array<Ticks, 66> ready_{};  ///< x, its sink, f
  Ticks vset_ready_ = 0;
  std::array<Ticks, dividers> divided_{};  ///< a divider takes the next
  std::array<Lanes, 32> registers_{};
  std::vector<Queue> queues_;  ///< as the units' pipes
  /// Of the instruction at hand: from this beat on, by the time that it would come without waiting, it is later.
  struct Late { Ticks from = 0, by = 0; };
  std::vector<Late> late_;
  const Hart* hart_ = nullptr;  ///< during `issue`, where there is one: its registers and memory say what is moved
  MemoryOrder memory_;
  Ticks end_ = 0, left_ = 0, ended_ = 0;
  std::uint64_t instructions_ = 0;
  Tickets tickets_;
  // the control instruction before
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
