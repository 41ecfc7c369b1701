// Models that simulate a unit's computes: a core at instruction level, or a model of its instructions.
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

/// A compute at the head of a queue with ready operands and space for its results.
struct Compute {
  std::int64_t core = 0;
  UnitKind kind = UnitKind::other;
  std::int32_t unit = 0;  ///< number of the unit in the run
  const Descriptor* descriptor = nullptr;
  History history;
  const ComputeSource* source = nullptr;  ///< set if latencies depend on kernels
  std::int64_t number = 0;                ///< index among units of its kind
  std::int64_t stream = 0;                ///< number of the stream in the run
  std::int64_t weights = -1;              ///< of a product: number of the stationary operand in the stream; -1: none
};

/// Report of a port on its units and computes.
struct ComputeReport {
  struct Ran {
    std::int64_t count = 0, cycles = 0;  ///< number; cycles by which they moved the end of their queue
  };
  std::map<std::string, Ran> computes;         ///< by text, ignoring history
  std::map<std::string, std::string> refused;  ///< by text: why the closed form was used
  std::vector<std::string> approximations;
};

/// An accepted compute completes at a known cycle, or `drain` returns its answer, as with memory ports.
class ComputePort : public Answering {
 public:
  /// Called before the first offer: units to which the port adds its own, and the timeline for their intervals.
  virtual void attach(Units& /*units*/, Timeline& /*timeline*/) {}
  /// Whether it reports for each compute when operands have been read and when the unit is free again.
  virtual bool tells_parts() const { return false; }
  virtual ComputeReport report() const { return {}; }
  /// Whether it simulates computes of the unit; others take the closed form's time. Called when a program starts.
  virtual bool takes(std::int64_t core, UnitKind kind) const = 0;
  /// Offers a compute. If rejected with a cycle not after `now`, offer it again after any compute has been answered.
  virtual Offered offer(const Compute& compute, std::uint64_t tag, std::int64_t now) = 0;
};

}  // namespace tilesim::engine
