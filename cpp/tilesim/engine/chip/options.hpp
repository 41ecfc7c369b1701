// What is asked of a simulation: its options and jobs.
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
  std::optional<std::string> memory;               ///< fidelity instead of the machine's: "ideal" | "simple" | "bank"
  std::shared_ptr<const engine::dram::Part> dram;  ///< of memory "bank": what each channel is
  std::optional<std::string> network;              ///< instead of the machine's: "simple", or the name of `topology`
  std::shared_ptr<const engine::noc::Topology> topology;  ///< of any network but "simple"
  bool timeline = false;                                  ///< record intervals
  std::int64_t max_intervals = 1000000;
  std::uint64_t shuffle_seed = 0;  ///< tests: insert equal-time events in another order; cycles must not change
  bool extra_statistic = false;    ///< tests: a statistic that does nothing
  /// Values of integer tensors that expressions read (counts, offsets, page tables); inputs by name.
  std::map<std::string, Array> tensors;
  /// Memory of several regions: where tensors lie, by name: "interleaved", "local" or a region's number.
  std::map<std::string, std::string> placement;
  /// Machines with a cache: tensors that stay in it; everything else passes by. None: the cache's own choice.
  std::vector<std::string> resident;
  std::shared_ptr<LatencyBook> latencies;  ///< of tile computes, asked before the closed forms
  std::map<std::string, std::shared_ptr<LatencyBook>> sort_latencies;  ///< instead, by sort, where there are sorts
  /// Makes the model of kernels for cores of a machine, which is asked for what a book of source "instruction" lacks;
  /// null: closed forms are.
  std::function<std::unique_ptr<LatencyModel>(const Machine&)> kernels;
  bool live = false;  ///< cores run kernels beside each other, in place of `latencies` and `computes`
  std::shared_ptr<engine::ComputePort> computes;  ///< times computes of the units that it takes; null: none
  /// Tile operations of all cores beyond which a program is replayed; none: every operation is simulated. Never with a
  /// timeline.
  std::optional<std::int64_t> replay_beyond;
  /// Told before a run: tile operations of all cores that are simulated, and those that there are.
  std::function<void(std::int64_t simulated, std::int64_t all)> expected;
  CancelToken* cancel = nullptr;
};

/// Program + bindings + arrival, queue, priority.
struct Job {
  std::shared_ptr<const program::CompiledProgram> program;
  std::vector<std::int64_t> cores;  ///< physical core of each virtual one
  std::int64_t arrival_cycles = 0;  ///< core clock
  std::int64_t priority = 0;        ///< smaller first among jobs waiting for the same cores
  std::map<std::string, Array> tensors;
};

}  // namespace tilesim
