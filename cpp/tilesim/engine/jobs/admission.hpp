// Admission of jobs, in order of (arrival, priority, submission), as soon as their cores have room. A waiting job keeps
// its cores from the jobs behind it.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "tilesim/engine/chip/chip.hpp"

namespace tilesim::engine {

struct JobState;

/// A job is looked at when it comes, when it is the first of a core, and when one of its cores has become free: what
/// that costs does not depend on how many others wait.
class Admission {
 public:
  explicit Admission(const Chip& chip);
  void add(JobState& job);  ///< it may arrive later
  /// The next job that starts now; it has its cores from here on. None: null.
  JobState* next(std::int64_t now);
  void leave(const JobState& job);                 ///< gives its cores back
  std::int64_t looked() const { return looked_; }  ///< jobs so far, for tests

 private:
  struct Before { bool operator()(const JobState* a, const JobState* b) const; };
  using Line = std::set<JobState*, Before>;

  bool fits(const JobState& job) const;

  const Chip& chip_;
  Line future_;              ///< not arrived
  Line candidates_;          ///< to be looked at
  std::vector<Line> lines_;  ///< per core: those that have arrived and wait
  std::vector<std::int64_t> contexts_used_;
  std::int64_t looked_ = 0;
};

}  // namespace tilesim::engine
