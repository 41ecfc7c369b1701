// Observers of a pipeline receive each instruction with its times. A pipeline without an observer pays one branch.
#pragma once

#include <array>
#include <cstdint>

#include "tilesim/isa/pipeline/plan.hpp"

namespace tilesim::isa {

/// States of a unit; the times of all states add up to the run.
enum class State : std::uint8_t {
  busy,       ///< the front end: issued an instruction
  starved,    ///< pipes, DMA queues: had no work
  operands,   ///< waited for a value
  registers,  ///< waited to write a register that an older instruction reads or writes
  order,      ///< waited for an older instruction of its queue to start
  queue,      ///< the front end: a vector queue was full
  port,       ///< the front end: another access used the memory port
  branch,     ///< after branches
  array,      ///< waited for an array: a place in its queue, or its results
  transfer,   ///< the front end: waited for DMA transfers
  memory,     ///< DMA queues: memory limited the rate, or had not answered
  divider,    ///< the front end: the divider was busy with an older division
  count
};
inline constexpr std::size_t states = static_cast<std::size_t>(State::count);
using StateTimes = std::array<Ticks, states>;
const char* state_name(State state);

/// Times of a vector instruction at its pipe.
struct PipeTimes {
  std::uint8_t kind = 0, pipe = 0;
  Ticks free = 0;                     ///< end of the pipe's previous work
  Ticks arrived = 0;                  ///< earliest time to leave its queue
  Ticks order = 0;                    ///< start of the previous instruction of its queue
  Ticks operands = 0, registers = 0;  ///< operands are ready; older reads and writes of destinations are over
  Ticks start = 0, end = 0;           ///< time in the pipe
};

/// An issued instruction. References are valid during the call.
struct Issue {
  const Op& op;
  const VectorState& v;
  const StaticTiming& fixed;
  const InstructionPlan* plan;    ///< null for other than vector instructions
  const PipeTimes& at_pipe;       ///< valid for vector instructions
  const StateTimes &was, &front;  ///< the front end's time by state, before (see `wants_waits`) and after
  Ticks before, at;               ///< time of the front end, before the instruction and at issue
  Ticks done;                     ///< time of its result
  Ticks over;                     ///< end of all issued instructions
};

/// Receives issued instructions. It must not use floating point: the hart uses the processor's flags.
class Recorder {
 public:
  virtual ~Recorder() = default;
  virtual void issued(const Issue& what) = 0;
  virtual void trapped(const Op&) {}                  ///< the last instruction was not executed
  virtual bool wants_waits() const { return false; }  ///< whether it reads Issue::was
};

}  // namespace tilesim::isa
