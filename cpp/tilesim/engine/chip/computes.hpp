// Interface of models that replace the closed form of computes, for instance cores at instruction level.
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

/// A compute at the head of a queue, whose operands are ready and whose results have space.
struct Compute {
  std::int64_t core = 0;
  UnitKind kind = UnitKind::other;
  std::int32_t unit = 0;  ///< index of the unit in `Units`
  const Descriptor* descriptor = nullptr;
  History history;
  const ComputeSource* source = nullptr;  ///< set if latencies come from kernels; null: closed form
  std::int64_t number = 0;                ///< index among the core's units of this kind
  std::int64_t stream = 0;                ///< index of the stream in the run
  std::int64_t weights = -1;              ///< number of a product's stationary operand in the stream; -1: none
};

/// Statistics that a compute port collects.
struct ComputeReport {
  struct Ran {
    std::int64_t count = 0, cycles = 0;  ///< number of computes; cycles they added to their queue's end time
  };
  std::map<std::string, Ran> computes;         ///< by text of the compute, ignoring history
  std::map<std::string, std::string> refused;  ///< by text of the compute: why the closed form was used
  std::vector<std::string> approximations;
};

/// A port for computes. For an accepted compute, `offer` returns its end or `drain` returns it later, as with memory.
class ComputePort : public Answering {
 public:
  /// The engine calls this once before the first offer. The port may add units, and intervals to the timeline.
  virtual void attach(Units& /*units*/, Timeline& /*timeline*/) {}
  /// Whether the port answers twice per compute: when its operands have been read, and when the unit is free again.
  virtual bool tells_parts() const { return false; }
  virtual ComputeReport report() const { return {}; }
  /// Whether the port simulates computes of this unit; otherwise the closed form applies. Called at a program's start.
  virtual bool takes(std::int64_t core, UnitKind kind) const = 0;
  /// Offers a compute. If it is rejected with a cycle not after `now`, offer it again after any compute was answered.
  virtual Offered offer(const Compute& compute, std::uint64_t tag, std::int64_t now) = 0;
};

}  // namespace tilesim::engine
