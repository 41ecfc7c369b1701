// Observers of a pipeline receive each instruction with its times. Without an observer the cost is one branch.
#pragma once

#include <array>
#include <cstdint>

#include "tilesim/isa/pipeline/plan.hpp"

namespace tilesim::isa {

/// Where a unit's time went; the states add up to the run.
enum class State : std::uint8_t {
  busy,       ///< the front end: issued something
  starved,    ///< pipes, DMA queues: nothing was given to them
  operands,   ///< waited for a value
  registers,  ///< waited to write where an older instruction reads or writes
  order,      ///< waited for an older instruction of its queue to start
  queue,      ///< the front end: no place in a vector queue
  port,       ///< the front end: another access was at the memory port
  branch,     ///< after branches
  array,      ///< waited for an array: a place in its queue, or its results
  transfer,   ///< the front end: waited for DMA transfers
  memory,     ///< DMA queues: memory was slower, or had not answered and nothing else was to be done
  divider,    ///< the front end: a divider was at work on an older division
  count
};
inline constexpr std::size_t states = static_cast<std::size_t>(State::count);
using StateTimes = std::array<Ticks, states>;
const char* state_name(State state);

/// Times of a vector instruction at its pipe.
struct PipeTimes {
  std::uint8_t kind = 0, pipe = 0;
  Ticks free = 0;                     ///< the pipe was done with what it did before
  Ticks arrived = 0;                  ///< out of its queue it could go from here on
  Ticks order = 0;                    ///< the older one of its queue had started
  Ticks operands = 0, registers = 0;  ///< what it reads was there; what it writes was read and written
  Ticks start = 0, end = 0;           ///< it held the pipe
};

/// One instruction as it issued. References hold during the call.
struct Issue {
  const Op& op;
  const VectorState& v;
  const StaticTiming& fixed;
  const InstructionPlan* plan;    ///< null: no vector instruction
  const PipeTimes& at_pipe;       ///< of a vector instruction
  const StateTimes &was, &front;  ///< the front end's time by state, before (see `wants_waits`) and after
  Ticks before, at;               ///< the front end's cycle, before and at issue
  Ticks done;                     ///< its result is there
  Ticks over;                     ///< all that has issued so far is over
};

/// Does no floating point: the hart's flags are those of the processor.
class Recorder {
 public:
  virtual ~Recorder() = default;
  virtual void issued(const Issue& what) = 0;
  virtual void trapped(const Op&) {}                  ///< the last one was not carried out
  virtual bool wants_waits() const { return false; }  ///< whether it looks at Issue::was
};

}  // namespace tilesim::isa
