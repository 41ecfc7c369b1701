// The units of a core that its sequencers share: pipes with their ports, and arrays with their queues.
#pragma once

#include <vector>

#include "tilesim/isa/pipeline/recorder.hpp"

namespace tilesim::isa {

struct CoreUnits {
  struct Held { Ticks start = 0, end = 0; };
  struct Pipe {
    Ticks free = 0;               ///< end of its last instruction
    Ticks busy = 0;               ///< total time; of shared pipes
    std::int64_t operations = 0;  ///< shared: number of instructions
    StateTimes in{};              ///< if one sequencer owns it
    std::vector<Held> shown;      ///< of a recorded shared pipe: busy intervals, without small gaps
    std::vector<Held> booked;     ///< of a shared pipe: relevant reservations, in order
  };
  struct PipeSlot {
    std::size_t pipe = 0;
    Ticks start = 0;
  };

  CoreUnits() = default;  ///< without pipes
  explicit CoreUnits(const CoreTiming& core);

  /// Among the first `allowed` pipes of a unit, the one with the earliest free time of length `held`, at or after
  /// `from`, including gaps between reservations. Ties go to the pipe that is free the longest.
  PipeSlot soonest(std::size_t unit, unsigned allowed, Ticks from, Ticks held);
  void book(std::size_t unit, const PipeSlot& place, Ticks held);

  std::vector<std::vector<Pipe>> pipes;  ///< by PipeKind, then the core's other units
  std::vector<ArrayClock> arrays;
  MoveQueues moves;
  bool shows = false;
  Ticks past = 0;  ///< lower bound of later start times
};

}  // namespace tilesim::isa
