// Latency of a kernel without data: scalar instructions are executed, vector and array instructions only timed.
// Repeating loops are fast-forwarded.
#pragma once

#include "tilesim/isa/pipeline/pipeline.hpp"
#include "tilesim/isa/schedule/code.hpp"

namespace tilesim::isa {

class DryRun {
 public:
  explicit DryRun(std::shared_ptr<PipelineTable> table, bool every_trip = false);

  /// Continues after previous kernels; returns the number of simulated instructions, without skipped ones.
  std::uint64_t run(const Kernel& kernel);
  const Pipeline& pipeline() const { return pipeline_; }

 private:
  struct Trips;
  void pass_over(const KernelLoop& loop, Trips& trips);

  std::shared_ptr<const InstructionSet> set_;
  Pipeline pipeline_;
  Hart hart_;
  bool every_trip_;
};

}  // namespace tilesim::isa
