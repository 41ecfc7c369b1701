// A waiting or running job, and the data of its program that all jobs of the program share.
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

/// What a vector compute costs, as far as it does not depend on loop indices.
struct StaticCost {
  VectorWork work;
  std::int32_t functions_total = 0;
};

/// A program as jobs of it need it: names are numbers.
struct LoadedProgram {
  LoadedProgram(std::shared_ptr<const program::CompiledProgram> of, const Chip& chip, Units& units, Timeline& timeline);

  std::shared_ptr<const program::CompiledProgram> program;
  TensorPlan tensors;
  std::vector<std::int32_t> sorts;                  ///< of units, per queue
  std::vector<StaticCost> costs;                    ///< per instruction
  SignedComputes computes;                          ///< where latencies depend on kernels
  std::vector<std::vector<std::int32_t>> slots_of;  ///< per scope
  std::vector<std::int32_t> labels;                 ///< per scope, of the timeline
  std::int32_t no_label = 0;
  std::vector<std::pair<const CoreKind*, std::int32_t>> rows;  ///< of its jobs, by sort of their first core
  std::vector<std::string> notes;                              ///< which instructions of the user's it takes
  std::int64_t jobs = 0;                                       ///< that wait or are under way
};

struct JobState {
  using Cell = std::pair<std::int32_t, std::int64_t>;  ///< counter, core * size + index

  Job job;
  int id = 0;
  LoadedProgram* loaded = nullptr;
  /// Of each core that it takes; all of them where its slots exceed its share of the memories.
  std::vector<std::int64_t> contexts;
  std::unique_ptr<ArrayReader> reader;
  bool started = false;
  OffChip::JobMemory place;
  std::vector<std::vector<std::int64_t>> counters;               ///< per counter
  std::map<Cell, std::vector<std::pair<Stream*, int>>> waiters;  ///< queues, by cell
  JobKernels kernels;
  std::vector<std::unique_ptr<Stream>> streams;
  std::size_t streams_left = 0;
};

}  // namespace tilesim::engine
