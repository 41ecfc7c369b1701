// A waiting or running job, and the data that all jobs of a program share.
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

/// Cost of a vector compute that is independent of loop indices.
struct StaticCost {
  VectorWork work;
  std::int32_t functions_total = 0;
};

/// A program prepared for jobs, with numbers in place of names.
struct LoadedProgram {
  LoadedProgram(std::shared_ptr<const program::CompiledProgram> of, const Chip& chip, Units& units, Timeline& timeline);

  std::shared_ptr<const program::CompiledProgram> program;
  TensorPlan tensors;
  std::vector<std::int32_t> sorts;                  ///< unit type of each queue
  std::vector<StaticCost> costs;                    ///< per instruction
  SignedComputes computes;                          ///< if latencies depend on kernels
  std::vector<std::vector<std::int32_t>> slots_of;  ///< per scope
  std::vector<std::int32_t> labels;                 ///< label per scope in the timeline
  std::int32_t no_label = 0;
  std::vector<std::pair<const CoreKind*, std::int32_t>> rows;  ///< rows in `Rows`, by core type of the first core
  std::vector<std::string> notes;                              ///< on the user's instructions that it uses
  std::int64_t jobs = 0;                                       ///< jobs waiting or running
};

struct JobState {
  using Cell = std::pair<std::int32_t, std::int64_t>;  ///< counter, core * size + index

  Job job;
  int id = 0;
  LoadedProgram* loaded = nullptr;
  /// Number of contexts on each core; all contexts if the slots exceed one share of the memories.
  std::vector<std::int64_t> contexts;
  std::unique_ptr<ArrayReader> reader;
  bool started = false;
  OffChip::JobMemory place;
  std::vector<std::vector<std::int64_t>> counters;               ///< per counter
  std::map<Cell, std::vector<std::pair<Stream*, int>>> waiters;  ///< waiting queues by cell
  JobKernels kernels;
  std::vector<std::unique_ptr<Stream>> streams;
  std::size_t streams_left = 0;
};

}  // namespace tilesim::engine
