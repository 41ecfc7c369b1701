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
  std::optional<std::string> memory;  ///< replaces the machine's memory fidelity: "ideal" | "simple" | "bank"
  std::shared_ptr<const engine::dram::Part> dram;  ///< DRAM part of each channel, for memory "bank"
  std::optional<std::string> network;  ///< replaces the machine's network: "simple" or the name of `topology`
  std::shared_ptr<const engine::noc::Topology> topology;  ///< required for all networks except "simple"
  bool timeline = false;                                  ///< record busy intervals of units
  std::int64_t max_intervals = 1000000;
  std::uint64_t shuffle_seed = 0;  ///< for tests: changes the queue's inner order; results must not change
  bool extra_statistic = false;    ///< for tests: adds a statistic that has no effect
  /// Values of integer tensors that expressions read (counts, offsets, page tables), by tensor name.
  std::map<std::string, Array> tensors;
  /// Placement by tensor name, for a memory of several regions: "interleaved", "local" or the number of a region.
  std::map<std::string, std::string> placement;
  /// Tensors that stay in the machine's cache; all other tensors bypass it. Empty: all tensors use the cache.
  std::vector<std::string> resident;
  std::shared_ptr<LatencyBook> latencies;  ///< latencies of tile computes; they replace closed forms
  std::map<std::string, std::shared_ptr<LatencyBook>> sort_latencies;  ///< by core type, on machines with several types
  /// Creates a kernel model of a machine's cores. The model supplies latencies that a book of source "instruction" does
  /// not contain. Null: closed forms supply them.
  std::function<std::unique_ptr<LatencyModel>(const Machine&)> kernels;
  bool live = false;  ///< simulate cores at instruction level; replaces `latencies`, `computes`
  std::shared_ptr<engine::ComputePort> computes;  ///< simulates the computes of some units; null: none
  /// The engine extrapolates steady loops of programs with more tile operations than this. Empty: never. It always
  /// simulates programs with a timeline in full.
  std::optional<std::int64_t> replay_beyond;
  /// Called before a run with the number of tile operations to simulate and of all tile operations, over all cores.
  std::function<void(std::int64_t simulated, std::int64_t all)> expected;
  CancelToken* cancel = nullptr;
};

/// A program to run, with its cores, arrival, priority and values of tensors.
struct Job {
  std::shared_ptr<const program::CompiledProgram> program;
  std::vector<std::int64_t> cores;  ///< physical core of each virtual core
  std::int64_t arrival_cycles = 0;  ///< in core clock cycles
  std::int64_t priority = 0;        ///< of jobs that wait for the same core, the one with the lowest value starts first
  std::map<std::string, Array> tensors;
};

}  // namespace tilesim
