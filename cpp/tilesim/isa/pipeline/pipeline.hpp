// When instructions happen: a scalar front end in program order, queues, pipes that work on register beats, memory
// ports. An instruction is looked at once, when it issues; no cycle is stepped.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tilesim/isa/pipeline/plan.hpp"

namespace tilesim::isa {

/// Where a unit's time went; the states add up to the run.
enum class State : std::uint8_t {
  busy,       ///< the front end: issued something
  starved,    ///< pipes: nothing was dispatched to them
  operands,   ///< waited for a value
  registers,  ///< waited to write where an older instruction reads or writes
  order,      ///< waited for an older instruction of its queue to start
  queue,      ///< the front end: no place in a vector queue
  port,       ///< the front end: another access was at the memory port
  branch,     ///< after branches
  count
};
inline constexpr std::size_t states = static_cast<std::size_t>(State::count);
const char* state_name(State state);

struct UnitTimes {
  std::string name;
  std::array<Ticks, states> in{};
};

/// Timing follows execution: an Observer of a Hart, or fed from a list of decoded instructions.
class Pipeline final : public Observer {
 public:
  Pipeline(std::shared_ptr<const InstructionSet> set, CoreTiming core);

  void issue(const Op& op, const Hart& before) override { issue(op, before.v); }
  void issue(const Op& op, const VectorState& v);
  /// Cycles until all that was issued is over.
  std::int64_t drain() const;
  /// Front end and pipes, until `drain()`.
  std::vector<UnitTimes> units() const;
  std::uint64_t instructions() const { return instructions_; }
  const CoreTiming& core() const { return core_; }
  const InstructionSet& set() const { return *set_; }

  Ticks now() const { return now_; }
  /// All that later instructions can notice, as times from now: equal ones go on alike.
  void state(std::vector<Ticks>& to) const;
  /// Lets `times` repetitions of the time since `before` pass at once.
  void repeat(const Pipeline& before, std::int64_t times);

 private:
  struct Register {
    Ticks first = 0, last = 0;            ///< its result is there, first and last beat
    Ticks read_first = 0, read_last = 0;  ///< it is read no more
  };
  struct Pipe {
    Ticks free = 0;
    std::array<Ticks, states> in{};
  };
  struct Bounds { Ticks operands = 0, registers = 0; };

  void follow(const Op& op);  ///< what the branch before turned out to be
  void wait(Ticks until, State why);
  void take_slot();
  void vector(const Op& op, const StaticTiming& fixed, const VectorState& v);
  const Plan& plan_for(const Op& op, const StaticTiming& fixed, const VectorState& v);
  Bounds bounds(const Plan& plan, const Op& op) const;
  void record(const Plan& plan, const Op& op, Ticks start);
  Pipe& choose(unsigned unit, unsigned allowed);
  std::string unit_called(std::size_t unit) const;

  std::shared_ptr<const InstructionSet> set_;
  CoreTiming core_;
  std::vector<StaticTiming> static_;
  std::vector<Plan> plans_;

  Ticks now_ = 0;  ///< the front end's cycle
  unsigned used_ = 0, dispatched_ = 0, accesses_ = 0;
  std::array<Ticks, states> front_{};
  std::array<Ticks, 66> ready_{};  ///< x, its sink, f
  Ticks vset_ready_ = 0;
  std::array<Register, 32> registers_{};
  std::vector<std::vector<Pipe>> pipes_;  ///< by PipeKind, then the core's own units
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
};

}  // namespace tilesim::isa
