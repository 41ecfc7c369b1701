// Options and jobs of a simulation.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tilesim/base/cancel.hpp"
#include "tilesim/engine/chip/computes.hpp"
#include "tilesim/engine/dram/part.hpp"
#include "tilesim/engine/noc/topology.hpp"
#include "tilesim/machine/machine.hpp"
#include "tilesim/program/flat/cursor.hpp"
#include "tilesim/tile/latency_book.hpp"

namespace tilesim {

struct SimulateOptions {
  std::optional<std::string> memory;               ///< overrides the machine's fidelity: "ideal" | "simple" | "bank"
  std::shared_ptr<const engine::dram::Part> dram;  ///< for memory "bank": the part of each channel
  std::optional<std::string> network;              ///< overrides the machine's: "simple", or the name of `topology`
  std::shared_ptr<const engine::noc::Topology> topology;  ///< for all networks except "simple"
  bool timeline = false;                                  ///< records intervals
  std::int64_t max_intervals = 1000000;
  std::uint64_t shuffle_seed = 0;  ///< tests: inserts events of equal time in another order; cycles must not change
  bool extra_statistic = false;    ///< tests: a statistic without effect
  /// Values of integer tensors that expressions read (counts, offsets, page tables); inputs by name.
  std::map<std::string, Array> tensors;
  /// Placement of tensors in a memory of several regions, by name: "interleaved", "local" or a region's number.
  std::map<std::string, std::string> placement;
  /// Tensors that stay in the machine's cache; all others bypass it. Empty: the cache chooses.
  std::vector<std::string> resident;
  std::shared_ptr<LatencyBook> latencies;  ///< latencies of tile computes; preferred to closed forms
  std::map<std::string, std::shared_ptr<LatencyBook>> sort_latencies;  ///< by core type, on machines with several types
  /// Creates the kernel model of a machine's cores, for latencies missing in a book of source "instruction"; null:
  /// closed forms supply them.
  std::function<std::unique_ptr<LatencyModel>(const Machine&)> kernels;
  bool live = false;  ///< simulates cores at instruction level, instead of `latencies` and `computes`
  std::shared_ptr<engine::ComputePort> computes;  ///< port that simulates the computes of some units; null: none
  /// Number of tile operations from which steady loops are extrapolated; empty: never. Programs with a timeline are
  /// simulated completely.
  std::optional<std::int64_t> replay_beyond;
  /// Called before a run with the number of simulated and of all tile operations, over all cores.
  std::function<void(std::int64_t simulated, std::int64_t all)> expected;
  CancelToken* cancel = nullptr;
};

/// A program to run, with its cores, arrival, priority and tensors.
struct Job {
  std::shared_ptr<const program::CompiledProgram> program;
  std::vector<std::int64_t> cores;  ///< physical core of each virtual core
  std::int64_t arrival_cycles = 0;  ///< in core clock cycles
  std::int64_t priority = 0;        ///< jobs that wait for the same cores start in ascending order
  std::map<std::string, Array> tensors;
};

}  // namespace tilesim
