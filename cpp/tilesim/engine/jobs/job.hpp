// A waiting or running job, and the data that all jobs of the same program share.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "tilesim/engine/chip/off_chip.hpp"
#include "tilesim/engine/jobs/signed.hpp"
#include "tilesim/engine/jobs/values.hpp"
#include "tilesim/engine/kernels/kernels.hpp"
#include "tilesim/engine/streams/stream.hpp"
#include "tilesim/engine/units/timeline.hpp"
#include "tilesim/engine/units/units.hpp"
#include "tilesim/tile/compute.hpp"

namespace tilesim::engine {

/// The part of a vector compute's cost that does not depend on loop indices.
struct StaticCost {
  VectorWork work;
  std::int32_t functions_total = 0;
};

/// A program prepared for jobs: indices replace names.
struct LoadedProgram {
  LoadedProgram(std::shared_ptr<const program::CompiledProgram> of, const Chip& chip, Units& units, Timeline& timeline);

  std::shared_ptr<const program::CompiledProgram> program;
  TensorPlan tensors;
  std::vector<std::int32_t> sorts;                  ///< per queue: number of its unit type
  std::vector<StaticCost> costs;                    ///< per instruction
  SignedComputes computes;                          ///< used if latencies come from kernels
  std::vector<std::vector<std::int32_t>> slots_of;  ///< per scope: slots that end with the scope
  std::vector<std::int32_t> labels;                 ///< per scope: label in the timeline
  std::int32_t no_label = 0;
  std::vector<std::pair<const CoreKind*, std::int32_t>> rows;  ///< indices into `Rows`, by type of the job's first core
  std::vector<std::string> notes;  ///< notes on the user-defined instructions of the program
  std::int64_t jobs = 0;           ///< number of waiting or running jobs
};

struct JobState {
  using Cell = std::pair<std::int32_t, std::int64_t>;  ///< counter, core * size + index

  Job job;
  int id = 0;
  LoadedProgram* loaded = nullptr;
  /// Per core: number of contexts that the job occupies; all if its slots exceed one context's share of the memories.
  std::vector<std::int64_t> contexts;
  std::unique_ptr<ArrayReader> reader;
  bool started = false;
  OffChip::JobMemory place;
  std::vector<std::vector<std::int64_t>> counters;               ///< per counter: its cells
  std::map<Cell, std::vector<std::pair<Stream*, int>>> waiters;  ///< by cell: streams and queues that wait for it
  JobKernels kernels;
  std::vector<std::unique_ptr<Stream>> streams;
  std::size_t streams_left = 0;
};

}  // namespace tilesim::engine
