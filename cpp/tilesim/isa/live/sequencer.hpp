// A queue of a core as a sequencer: a front end of its own that runs one kernel after the other on units that all of
// the core's sequencers share.
#pragma once

#include <limits>
#include <memory>
#include <vector>

#include "tilesim/isa/live/kernel.hpp"

namespace tilesim::isa {

/// What has happened to a kernel, told when nothing can change it any more; a cycle after the instruction that says so
/// has issued, or later.
struct LiveEvent {
  enum Kind : std::uint8_t {
    consumed,  ///< its operands have been read
    free,      ///< the sequencer may begin another one
    done,      ///< its last result is there
  };
  std::uint64_t tag = 0;
  Kind kind = done;
  std::int64_t cycle = 0;
};

class Sequencer {
 public:
  static constexpr Ticks never = std::numeric_limits<Ticks>::max();

  /// `units` outlives it. `number`: its place among those of the core; of instructions that issue at one time those of
  /// the lower go first.
  Sequencer(std::shared_ptr<PipelineTable> table, CoreUnits& units, int number);

  int number() const { return number_; }
  bool idle(std::int64_t at) const { return kernel_ == nullptr && reserved_ <= at; }
  /// An idle one begins a kernel at cycle `at`.
  void start(const LiveKernel& kernel, std::uint64_t tag, std::int64_t at, std::vector<LiveEvent>& events);
  /// An idle one is taken until then by what has no kernel.
  void reserve(std::int64_t until);
  /// When its next instruction for the units issues; `never`: it has none.
  Ticks next() const { return kernel_ != nullptr ? pipeline_.now() : never; }
  /// Issues all that can issue before `until`, or up to the first event; whether there was one.
  bool advance(Ticks until, std::vector<LiveEvent>& events);
  const Pipeline& pipeline() const { return pipeline_; }

 private:
  bool reach(std::vector<LiveEvent>& events);

  Pipeline pipeline_;
  CoreUnits* units_;
  Hart hart_;
  int number_;
  const LiveKernel* kernel_ = nullptr;
  std::uint64_t tag_ = 0;
  std::size_t at_ = 0;  ///< the instruction that waits to issue
  Ticks consumed_ = 0;
  bool told_ = false;
  std::int64_t reserved_ = 0;
};

}  // namespace tilesim::isa
