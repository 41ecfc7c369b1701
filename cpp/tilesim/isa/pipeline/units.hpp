// The units of a core that its sequencers share: pipes with their ports, and arrays behind their queues.
#pragma once

#include <vector>

#include "tilesim/isa/pipeline/recorder.hpp"

namespace tilesim::isa {

struct CoreUnits {
  struct Held { Ticks start = 0, end = 0; };
  struct Pipe {
    Ticks free = 0;               ///< end of its last instruction
    Ticks busy = 0;               ///< in total; of shared ones
    std::int64_t operations = 0;  ///< shared: number of instructions
    StateTimes in{};              ///< if owned by one sequencer
    std::vector<Held> shown;      ///< shared, if recorded: busy intervals, small gaps left out
    std::vector<Held> booked;     ///< shared: reservations in order, as far as relevant
  };
  struct PipeSlot {
    std::size_t pipe = 0;
    Ticks start = 0;
  };

  CoreUnits() = default;  ///< without pipes
  explicit CoreUnits(const CoreTiming& core);

  /// Among the first `allowed` pipes of a unit, the one that can be reserved for `held` soonest, at or after `from`,
  /// also between existing reservations. Ties go to the one free the longest.
  PipeSlot soonest(std::size_t unit, unsigned allowed, Ticks from, Ticks held);
  void book(std::size_t unit, const PipeSlot& place, Ticks held);

  std::vector<std::vector<Pipe>> pipes;  ///< by PipeKind, then the core's own units
  std::vector<ArrayClock> arrays;
  MoveQueues moves;
  bool shows = false;
  Ticks past = 0;  ///< earliest time of later starts
};

}  // namespace tilesim::isa
