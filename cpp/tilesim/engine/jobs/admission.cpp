#include "tilesim/engine/jobs/admission.hpp"

#include <tuple>

#include "tilesim/base/index.hpp"
#include "tilesim/engine/jobs/job.hpp"

namespace tilesim::engine {

bool Admission::Before::operator()(const JobState* a, const JobState* b) const {
  const auto key = [](const JobState& job) { return std::tuple(job.job.arrival_cycles, job.job.priority, job.id); };
  return key(*a) < key(*b);
}

Admission::Admission(const Chip& chip)
    : chip_(chip), lines_(at(chip.machine.core.count)), contexts_used_(lines_.size(), 0) {}

void Admission::add(JobState& job) { future_.insert(&job); }

JobState* Admission::next(std::int64_t now) {
  while (!future_.empty() && (*future_.begin())->job.arrival_cycles <= now) {
    JobState* const job = *future_.begin();
    future_.erase(future_.begin());
    candidates_.insert(job);
    for (const std::int64_t core : job->job.cores) lines_[at(core)].insert(job);
  }
  while (!candidates_.empty()) {
    JobState* const job = *candidates_.begin();
    candidates_.erase(candidates_.begin());
    ++looked_;
    if (!fits(*job)) continue;
    for (std::size_t i = 0; i < job->job.cores.size(); ++i) {
      const auto core = at(job->job.cores[i]);
      contexts_used_[core] += job->contexts[i];
      lines_[core].erase(job);
    }
    for (const std::int64_t core : job->job.cores)  // to keep the order, the job must be first in line for each core
      if (const Line& line = lines_[at(core)]; !line.empty()) candidates_.insert(*line.begin());
    return job;
  }
  return nullptr;
}

bool Admission::fits(const JobState& job) const {
  for (std::size_t i = 0; i < job.job.cores.size(); ++i) {
    const auto core = at(job.job.cores[i]);
    if (*lines_[core].begin() != &job) return false;
    if (contexts_used_[core] + job.contexts[i] > chip_.kind(job.job.cores[i]).core.contexts) return false;
  }
  return true;
}

void Admission::leave(const JobState& job) {
  for (std::size_t i = 0; i < job.job.cores.size(); ++i) {
    const auto core = at(job.job.cores[i]);
    contexts_used_[core] -= job.contexts[i];
    if (!lines_[core].empty()) candidates_.insert(*lines_[core].begin());
  }
}

}  // namespace tilesim::engine
