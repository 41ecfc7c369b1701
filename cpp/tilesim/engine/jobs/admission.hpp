// Admits jobs in order of (arrival, priority, submission) once their cores have free contexts. While a job waits for a
// core, later jobs wait for that core, too.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "tilesim/engine/chip/chip.hpp"

namespace tilesim::engine {

struct JobState;

/// Admits jobs to cores. It checks a job only when the job arrives, when it becomes first in line for a core, and when
/// one of its cores becomes free, so that the cost does not depend on the number of waiting jobs.
class Admission {
 public:
  explicit Admission(const Chip& chip);
  void add(JobState& job);  ///< the job may arrive in the future
  /// Returns the next job to start now, and occupies its cores; null if no job can start.
  JobState* next(std::int64_t now);
  void leave(const JobState& job);                 ///< frees the job's contexts
  std::int64_t looked() const { return looked_; }  ///< number of checks so far, for tests

 private:
  struct Before { bool operator()(const JobState* a, const JobState* b) const; };
  using Line = std::set<JobState*, Before>;

  bool fits(const JobState& job) const;

  const Chip& chip_;
  Line future_;              ///< jobs that arrive in the future
  Line candidates_;          ///< jobs that `next` has to check
  std::vector<Line> lines_;  ///< per core: waiting jobs in order
  std::vector<std::int64_t> contexts_used_;
  std::int64_t looked_ = 0;
};

}  // namespace tilesim::engine
