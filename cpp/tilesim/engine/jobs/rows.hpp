// Records of jobs: one row per job, and the kernel counters of each program.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tilesim/engine/jobs/job.hpp"

namespace tilesim::engine {

struct JobRow {
  std::int32_t program = 0, cores = 0;               ///< indices into `programs()`, sets of cores
  std::int32_t sources = -1;                         ///< index of the sources of tensor values; -1: the job read none
  std::int64_t arrival = 0, start = 0, finish = -1;  ///< in core cycles; finish -1: not finished
};

struct KernelRow {
  std::size_t scope = 0;
  std::string kernel;
  std::vector<std::string> operation;
  KernelCounters counters;
};

/// A program on cores whose first core has a certain type.
struct ProgramRow {
  std::string name;
  std::vector<std::string> notes;
  const CoreKind* kind = nullptr;
  std::int64_t cores = 0, jobs = 0;
  std::vector<KernelRow> kernels;  ///< counters of completed jobs, by scope

  void add(const LoadedProgram& loaded, const std::vector<KernelCounters>& counters);
};

class Rows {
 public:
  int add(LoadedProgram& loaded, const Job& job, const CoreKind& kind);  ///< adds a job; returns its id
  void end(const JobState& job, std::int64_t finish);
  std::size_t size() const { return jobs_.size(); }
  JobRow& operator[](int id) { return jobs_[static_cast<std::size_t>(id)]; }
  const JobRow& operator[](int id) const { return jobs_[static_cast<std::size_t>(id)]; }
  const std::vector<std::int64_t>& cores(const JobRow& row) const {
    return *cores_[static_cast<std::size_t>(row.cores)];
  }
  const std::vector<ProgramRow>& programs() const { return programs_; }
  using Sources = std::map<std::string, std::string>;
  const Sources* sources(const JobRow& row) const;                      ///< null: the job read no tensor values
  const std::vector<std::string>& assumed() const { return assumed_; }  ///< assumptions that ended jobs made

 private:
  std::vector<JobRow> jobs_;
  std::vector<ProgramRow> programs_;
  std::map<std::vector<std::int64_t>, std::int32_t> number_of_cores_;
  std::vector<const std::vector<std::int64_t>*> cores_;
  std::map<Sources, std::int32_t> number_of_sources_;
  std::vector<const Sources*> sources_;
  std::vector<std::string> assumed_;
};

}  // namespace tilesim::engine
