// Manages jobs from submission to completion.
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
  /// Returns the job's id. Throws UserError for invalid cores, missing queues, or invalid options of tensors.
  int submit(Job job);
  void admit();                 ///< starts every job that can start now
  void finish(Stream& stream);  ///< ends a stream, and the job after its last stream; `clear` frees both
  void clear();                 ///< frees jobs that have ended

  const Rows& rows() const { return rows_; }
  const StreamTable& streams() const { return streams_; }
  const std::map<int, std::unique_ptr<JobState>>& live() const { return live_; }  ///< waiting and running jobs, by id
  const program::CompiledProgram* first() const { return first_.get(); }          ///< program of the first job
  std::int64_t finish() const { return finish_; }                                 ///< latest end of a finished stream
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
