// Runs Programs in time: events, cores, DMA, network, memory; jobs and sessions.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tilesim/base/cancel.hpp"
#include "tilesim/engine/dram/part.hpp"
#include "tilesim/engine/noc/topology.hpp"
#include "tilesim/machine/machine.hpp"
#include "tilesim/program/flat/cursor.hpp"
#include "tilesim/report/result.hpp"
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
  /// Machines with a cache: tensors that stay in it; everything else passes by. None: what the cache does by itself.
  std::vector<std::string> resident;
  std::shared_ptr<LatencyBook> latencies;  ///< of tile computes, asked before the closed forms
  std::map<std::string, std::shared_ptr<LatencyBook>> sort_latencies;  ///< instead, by sort, where there are sorts
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

/// A simulation in progress. Jobs on disjoint cores run together and share network and memory; jobs on the same core
/// run one after the other in order of (arrival, priority, submission), unless the core has contexts for both and each
/// keeps to its share of the scratchpad: then they share the core's units.
class Session {
 public:
  explicit Session(const Machine& machine, SimulateOptions options = {});
  ~Session();
  int submit(Job job);  ///< returns the job's id
  /// Processes all events up to and including `core_cycles`; returns false when nothing is left to do.
  bool run_until(std::int64_t core_cycles);
  void run();                ///< to the end; InternalError with who waits for what on a deadlock
  std::int64_t now() const;  ///< core cycles
  std::optional<std::int64_t> finished(int job) const;  ///< core cycle of completion
  Result result() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// One job, on cores 0..n-1 unless they are given.
Result simulate(const program::Program& program, const Machine& machine, const SimulateOptions& options = {},
                std::vector<std::int64_t> cores = {});

}  // namespace tilesim
