// Units that time computes themselves: a core that is run live, a model of its instructions.
#pragma once

#include <cstdint>

#include "tilesim/engine/memory/request.hpp"
#include "tilesim/engine/units/units.hpp"
#include "tilesim/tile/tile.hpp"

namespace tilesim::engine {

/// A compute at the head of a queue, whose operands are there and whose results have room.
struct Compute {
  std::int64_t core = 0;
  UnitKind kind = UnitKind::other;
  std::int32_t unit = 0;  ///< its number among all of the run
  const Descriptor* descriptor = nullptr;
  History history;
};

/// As the port of memory: what is accepted is complete at a cycle, or answered by `drain`.
class ComputePort : public Answering {
 public:
  /// Whether computes of the unit are offered here; others take the closed form's time. Asked when a program starts.
  virtual bool takes(std::int64_t core, UnitKind kind) const = 0;
  /// Refused with a cycle that is not after `now`: to be tried again when any compute has been answered.
  virtual Offered offer(const Compute& compute, std::uint64_t tag, std::int64_t now) = 0;
};

}  // namespace tilesim::engine
