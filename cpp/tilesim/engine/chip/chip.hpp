// The simulated chip: the machine at the requested fidelity, with its cores grouped by type.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "tilesim/engine/chip/cores.hpp"
#include "tilesim/engine/chip/options.hpp"

namespace tilesim::engine {

enum class MemoryKind : std::uint8_t { ideal, simple, bank };

/// A chip. It does not change during the simulation, except for the cached latencies of its core types.
class Chip {
 public:
  /// Throws UserError for an unknown fidelity or a missing DRAM part or topology.
  Chip(const Machine& machine, SimulateOptions options);

  Machine machine;  ///< the machine after SimulateOptions were applied
  SimulateOptions options;
  MemoryKind memory;
  bool routed;  ///< true if the network consists of routers

  CoreKind& kind(std::int64_t core) const { return *of_core_[static_cast<std::size_t>(core)]; }
  const std::vector<std::unique_ptr<CoreKind>>& kinds() const { return kinds_; }
  /// Cycles that a signal takes from one core to another, in core cycles.
  std::int64_t signal_cycles(std::int64_t from, std::int64_t to) const;

 private:
  std::vector<std::unique_ptr<CoreKind>> kinds_;
  std::vector<CoreKind*> of_core_;
};

/// Counters summed over all jobs.
struct Totals {
  std::int64_t tile_operations = 0, read_bytes = 0, written_bytes = 0, network_bytes = 0;
  std::int64_t padding_bytes = 0;              ///< bytes that reads and writes transfer as padding
  std::int64_t on_chip_bytes = 0;              ///< bytes that on-chip loads and stores move within cores
  std::optional<Descriptor> arithmetic_alone;  ///< first vector compute whose data movement the closed form omits
};

}  // namespace tilesim::engine
