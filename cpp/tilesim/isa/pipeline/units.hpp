// The units of a core that its sequencers share: pipes with their ports, and arrays behind their queues.
#pragma once

#include <vector>

#include "tilesim/isa/pipeline/recorder.hpp"

namespace tilesim::isa {

struct CoreUnits {
  struct Held { Ticks start = 0, end = 0; };
  struct Pipe {
    Ticks free = 0;               ///< its last instruction is over
    Ticks busy = 0;               ///< in all; of shared ones
    std::int64_t operations = 0;  ///< of shared ones: instructions
    StateTimes in{};              ///< of one sequencer's own
    std::vector<Held> shown;      ///< shared, where somebody looks: when it was held, small gaps left out
    std::vector<Held> booked;     ///< shared: what it is held for, in order, as far as it can matter
  };
  struct PipeSlot {
    std::size_t pipe = 0;
    Ticks start = 0;
  };

  CoreUnits() = default;  ///< none
  explicit CoreUnits(const CoreTiming& core);

  /// Of the first `allowed` pipes of a unit the one that can be held for `held` soonest, at or after `from`: between
  /// what others have booked where there is room. Of equals the one that is free longest.
  PipeSlot soonest(std::size_t unit, unsigned allowed, Ticks from, Ticks held);
  void book(std::size_t unit, const PipeSlot& place, Ticks held);

  std::vector<std::vector<Pipe>> pipes;  ///< by PipeKind, then the core's own units
  std::vector<ArrayClock> arrays;
  MoveQueues moves;
  bool shows = false;
  Ticks past = 0;  ///< nothing will start before
};

}  // namespace tilesim::isa
