// When instructions happen: a scalar front end in program order, queues, pipes that work on register beats, memory
// ports. An instruction is looked at once, when it issues; no cycle is stepped.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tilesim/isa/pipeline/plan.hpp"
#include "tilesim/isa/pipeline/recorder.hpp"

namespace tilesim::isa {

struct UnitTimes {
  std::string name;
  StateTimes in{};
};

/// What pipelines of one core need and do not change, but for plans found on the way. One thread at a time.
struct PipelineTables {
  PipelineTables(std::shared_ptr<const InstructionSet> of, CoreTiming timing);

  std::shared_ptr<const InstructionSet> set;
  CoreTiming core;
  std::vector<StaticTiming> timings;  ///< by id
  std::vector<Plan> plans;
};

/// Timing follows execution: an Observer of a Hart, or fed from a list of decoded instructions.
class Pipeline final : public Observer {
 public:
  Pipeline(std::shared_ptr<const InstructionSet> set, CoreTiming core);
  explicit Pipeline(std::shared_ptr<PipelineTables> tables);

  void issue(const Op& op, const Hart& before) override { issue(op, before.v); }
  void issue(const Op& op, const VectorState& v) {
    if (op.id >= static_.size()) [[unlikely]]
      return;  // bits that are no instruction: it traps
    if (recorders_.empty()) [[likely]]
      return time(op, v);
    recorded(op, v);
  }
  void trapped(const Op& op) override;
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
  const CoreTiming& core() const { return core_; }
  const InstructionSet& set() const { return *set_; }
  const std::vector<ArrayClock>& arrays() const { return arrays_; }
  /// "arithmetic", or "arithmetic0" where there are several: of a PipeKind, or behind those a unit of the core's own.
  std::string unit_called(std::size_t unit, std::size_t pipe) const;

  Ticks now() const { return now_; }
  /// All that later instructions can notice, as times from now: equal ones go on alike.
  void state(std::vector<Ticks>& to) const;
  /// Lets `times` repetitions of the time since `before` pass at once.
  void repeat(const Pipeline& before, std::int64_t times);

 private:
  struct Pipe {
    Ticks free = 0;
    StateTimes in{};
  };
  struct Bounds { Ticks operands = 0, registers = 0; };

  void time(const Op& op, const VectorState& v);
  void recorded(const Op& op, const VectorState& v);
  Ticks over() const { return std::max(end_, now_ + (used_ != 0 ? cycle : 0)); }
  void follow(const Op& op);  ///< what the branch before turned out to be
  void wait(Ticks until, State why);
  void take_slot();
  void vector(const Op& op, const StaticTiming& fixed, const VectorState& v);
  std::int64_t array_rows(ArrayWork work, const VectorState& v) const;
  const Plan& plan_for(const Op& op, const StaticTiming& fixed, const VectorState& v);
  Lanes latest(unsigned base, const Footprint& f, const Lanes& first, const Lanes& last) const;
  Bounds bounds(const Plan& plan, const Op& op) const;
  void record(const Plan& plan, const Op& op, Ticks start);
  Pipe& choose(unsigned unit, unsigned allowed);

  std::shared_ptr<PipelineTables> tables_;
  const InstructionSet* set_;
  const CoreTiming& core_;
  std::span<const StaticTiming> static_;
  std::span<Plan> plans_;

  Ticks now_ = 0;  ///< the front end's cycle
  unsigned used_ = 0, dispatched_ = 0, accesses_ = 0;
  StateTimes front_{};
  std::array<Ticks, 66> ready_{};  ///< x, its sink, f
  Ticks vset_ready_ = 0;
  std::array<Lanes, 32> registers_{};
  std::vector<std::vector<Pipe>> pipes_;  ///< by PipeKind, then the core's own units
  std::vector<ArrayClock> arrays_;
  struct Queue {
    std::array<Ticks, 64> starts{};
    unsigned entries = 8, next = 0;
    Ticks last = 0;
  };
  std::vector<Queue> queues_;  ///< as `pipes_`
  Ticks end_ = 0;
  std::uint64_t instructions_ = 0;
  // the control instruction before
  bool control_ = false, conditional_ = false, backward_ = false;
  std::uint64_t after_ = 0;
  // for recorders
  std::vector<Recorder*> recorders_;
  bool waits_ = false;
  StateTimes was_{};
  const Plan* plan_ = nullptr;
  PipeTimes times_;
  Ticks done_ = 0;
};

}  // namespace tilesim::isa
