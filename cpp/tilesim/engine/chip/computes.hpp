// Units that time computes themselves: a core at instruction level, or a model of its instructions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tilesim/engine/memory/request.hpp"
#include "tilesim/engine/units/timeline.hpp"
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
  const ComputeSource* source = nullptr;  ///< where latencies depend on kernels
  std::int64_t number = 0;                ///< of several units of its kind
  std::int64_t stream = 0;                ///< of all so far
  std::int64_t weights = -1;              ///< a product's: what the stream's stationary operand is
};

/// What is told of the port's own units and computes.
struct ComputeReport {
  struct Ran {
    std::int64_t count = 0, cycles = 0;  ///< cycles: by which each moved the end of its queue
  };
  std::map<std::string, Ran> computes;         ///< by text, without history
  std::map<std::string, std::string> refused;  ///< by text: why a closed form was taken
  std::vector<std::string> approximations;
};

/// As the port of memory: what is accepted is complete at a cycle, or answered by `drain`.
class ComputePort : public Answering {
 public:
  /// Before anything is offered: where separate units are listed, and what they do is shown.
  virtual void attach(Units& /*units*/, Timeline& /*timeline*/) {}
  /// Whether it says of each compute when its operands have been read and when its unit is free again.
  virtual bool tells_parts() const { return false; }
  virtual ComputeReport report() const { return {}; }
  /// Whether computes of the unit are offered here; others take the closed form's time. Asked when a program starts.
  virtual bool takes(std::int64_t core, UnitKind kind) const = 0;
  /// Refused with a cycle that is not after `now`: to be tried again when any compute has been answered.
  virtual Offered offer(const Compute& compute, std::uint64_t tag, std::int64_t now) = 0;
};

}  // namespace tilesim::engine
