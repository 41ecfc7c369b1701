// The chip of a simulation: the machine at the requested fidelity, with its cores by type.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "tilesim/engine/chip/cores.hpp"
#include "tilesim/engine/chip/options.hpp"

namespace tilesim::engine {

enum class MemoryKind : std::uint8_t { ideal, simple, bank };

/// Read only while events run, but for the latencies of the sorts.
class Chip {
 public:
  /// UserError for an unknown fidelity, or parts that it lacks.
  Chip(const Machine& machine, SimulateOptions options);

  Machine machine;  ///< resolved
  SimulateOptions options;
  MemoryKind memory;
  bool routed;  ///< a network of routers

  CoreKind& kind(std::int64_t core) const { return *of_core_[static_cast<std::size_t>(core)]; }
  const std::vector<std::unique_ptr<CoreKind>>& kinds() const { return kinds_; }
  /// Core cycles that a signal takes from one core to another.
  std::int64_t signal_cycles(std::int64_t from, std::int64_t to) const;

 private:
  std::vector<std::unique_ptr<CoreKind>> kinds_;
  std::vector<CoreKind*> of_core_;
};

/// Counters over all jobs.
struct Totals {
  std::int64_t tile_operations = 0, read_bytes = 0, written_bytes = 0, network_bytes = 0;
  std::int64_t padding_bytes = 0;              ///< of those read and written
  std::int64_t on_chip_bytes = 0;              ///< moved by loads and stores inside of cores
  std::optional<Descriptor> arithmetic_alone;  ///< the first vector compute whose moves its closed form does not know
};

}  // namespace tilesim::engine
