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

/// A compute at the head of a queue with ready operands and space for its results.
struct Compute {
  std::int64_t core = 0;
  UnitKind kind = UnitKind::other;
  std::int32_t unit = 0;  ///< number of the unit in the run
  const Descriptor* descriptor = nullptr;
  History history;
  const ComputeSource* source = nullptr;  ///< if latencies depend on kernels
  std::int64_t number = 0;                ///< index among units of its kind
  std::int64_t stream = 0;                ///< number of the stream in the run
  std::int64_t weights = -1;              ///< product: identifies the stream's stationary operand
};

/// Report on the port's own units and computes.
struct ComputeReport {
  struct Ran {
    std::int64_t count = 0, cycles = 0;  ///< count; cycles by which they moved the end of their queue
  };
  std::map<std::string, Ran> computes;         ///< by text, ignoring history
  std::map<std::string, std::string> refused;  ///< by text: reason for a closed form
  std::vector<std::string> approximations;
};

/// Like the port of memory: an accepted compute completes at a known cycle, or `drain` answers it.
class ComputePort : public Answering {
 public:
  /// Called before the first offer: the units to which separate ones are added, and the timeline that shows their work.
  virtual void attach(Units& /*units*/, Timeline& /*timeline*/) {}
  /// Whether it reports for each compute when its operands are read and when its unit is free again.
  virtual bool tells_parts() const { return false; }
  virtual ComputeReport report() const { return {}; }
  /// Whether computes of the unit are offered here; others take the closed form's time. Called when a program starts.
  virtual bool takes(std::int64_t core, UnitKind kind) const = 0;
  /// If rejected with a cycle not after `now`, offer it again after any compute has been answered.
  virtual Offered offer(const Compute& compute, std::uint64_t tag, std::int64_t now) = 0;
};

}  // namespace tilesim::engine
