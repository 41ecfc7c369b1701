// Jobs from submission to their end.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "tilesim/engine/jobs/admission.hpp"
#include "tilesim/engine/jobs/job.hpp"
#include "tilesim/engine/jobs/rows.hpp"

namespace tilesim::engine {

class Jobs {
 public:
  Jobs(const Chip& chip, OffChip& memory, Agenda& agenda, Units& units, Timeline& timeline);
  /// Returns the job's id. Throws UserError for wrong cores, missing queues, or wrong tensor options.
  int submit(Job job);
  void admit();                 ///< starts all jobs that can start now
  void finish(Stream& stream);  ///< ends a stream, and its job with the last one; both stay until `clear`
  void clear();                 ///< removes jobs that have ended

  const Rows& rows() const { return rows_; }
  const StreamTable& streams() const { return streams_; }
  const std::map<int, std::unique_ptr<JobState>>& live() const { return live_; }  ///< waiting and running jobs
  const program::CompiledProgram* first() const { return first_.get(); }          ///< program of the first job
  std::int64_t finish() const { return finish_; }                                 ///< end of the latest finished stream
  const Admission& admission() const { return admission_; }

 private:
  LoadedProgram& load(std::shared_ptr<const program::CompiledProgram> program);
  void check_cores(const Job& job) const;
  void check_queues(const LoadedProgram& loaded, const CoreKind& kind) const;
  void start(JobState& job);
  void start_stream(JobState& job, std::int64_t core, std::int64_t context);

  const Chip& chip_;
  OffChip& memory_;
  Agenda& agenda_;
  Units& units_;
  Timeline& timeline_;
  Admission admission_;
  Rows rows_;
  StreamTable streams_;
  std::map<const program::CompiledProgram*, std::unique_ptr<LoadedProgram>> loaded_;
  std::map<int, std::unique_ptr<JobState>> live_;
  std::vector<std::unique_ptr<JobState>> ended_;
  std::shared_ptr<const program::CompiledProgram> first_;
  std::int64_t finish_ = 0;
};

}  // namespace tilesim::engine
