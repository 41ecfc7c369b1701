// Admits jobs in order of (arrival, priority, submission) once their cores have free contexts. Later jobs wait for the
// cores of a waiting job.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "tilesim/engine/chip/chip.hpp"

namespace tilesim::engine {

struct JobState;

/// Admits jobs to cores. Checks a job when it arrives, when it becomes first in line for a core, and when one of its
/// cores becomes free, so that the cost does not depend on the number of waiting jobs.
class Admission {
 public:
  explicit Admission(const Chip& chip);
  void add(JobState& job);  ///< its arrival may be in the future
  /// The next job to start now, with its cores assigned; null if no job can start.
  JobState* next(std::int64_t now);
  void leave(const JobState& job);                 ///< releases its cores
  std::int64_t looked() const { return looked_; }  ///< number of checks so far, for tests

 private:
  struct Before { bool operator()(const JobState* a, const JobState* b) const; };
  using Line = std::set<JobState*, Before>;

  bool fits(const JobState& job) const;

  const Chip& chip_;
  Line future_;              ///< jobs that have not arrived
  Line candidates_;          ///< jobs to check
  std::vector<Line> lines_;  ///< per core: waiting jobs
  std::vector<std::int64_t> contexts_used_;
  std::int64_t looked_ = 0;
};

}  // namespace tilesim::engine
