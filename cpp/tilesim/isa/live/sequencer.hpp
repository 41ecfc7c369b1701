// A queue of a core as a sequencer: a front end that runs kernels one after the other on units that all sequencers of
// the core share.
#pragma once

#include <array>
#include <limits>
#include <memory>
#include <vector>

#include "tilesim/isa/live/kernel.hpp"

namespace tilesim::isa {

/// What has happened to a kernel, told when it is final; a cycle after the instruction that decides it
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

/// A kernel that has loaded its last weights pushes rows and takes results. The next one begins beside it, as in one
/// schedule of both: a step of the one that ends, up to its store, then one of the one that begins, up to its weights
/// or push. Rows and results keep the order of the kernels.
class Sequencer {
 public:
  static constexpr Ticks never = std::numeric_limits<Ticks>::max();

  /// `units` outlives it. `number`: its place among those of the core; of instructions that issue at one time those of
  /// the lower go first.
  Sequencer(std::shared_ptr<PipelineTable> table, CoreUnits& units, int number);

  int number() const { return number_; }
  bool idle(std::int64_t at) const { return runs_[begun_].kernel == nullptr && reserved_ <= at; }
  /// An idle one begins a kernel at cycle `at`.
  void start(const LiveKernel& kernel, std::uint64_t tag, std::int64_t at, std::vector<LiveEvent>& events);
  /// An idle one is taken until then by what has no kernel.
  void reserve(std::int64_t until);
  /// When its next instruction for the units issues; `never`: it has none.
  Ticks next() const { return !any() ? never : pending_ ? pipeline_.now() : std::max(pipeline_.now(), hold_); }
  /// Issues all that can issue before `until`, or up to the first event; whether there was one.
  bool advance(Ticks until, std::vector<LiveEvent>& events);
  const Pipeline& pipeline() const { return pipeline_; }

 private:
  struct Run {
    Run(const std::shared_ptr<PipelineTable>& table) : hart(table->set, table->core.vlen) {}
    Hart hart;
    const LiveKernel* kernel = nullptr;
    std::uint64_t tag = 0;
    Ticks consumed = 0, over = 0;
    bool told = false;
    std::size_t at() const { return (hart.pc - live_code) / 4; }
  };
  bool any() const { return runs_[0].kernel != nullptr || runs_[1].kernel != nullptr; }
  std::size_t whose() const;
  /// Whether the kernel that ends has rows to push.
  bool pushing() const {
    const Run& ends = runs_[1 - begun_];
    return ends.kernel != nullptr && ends.at() < ends.kernel->pushed;
  }
  bool reach(std::vector<LiveEvent>& events);
  void tell_end(Run& run, std::vector<LiveEvent>& events);

  Pipeline pipeline_;
  CoreUnits* units_;
  std::array<Run, 2> runs_;
  std::size_t begun_ = 0;   ///< which of them the last kernel to begin has; the other one takes its last results
  std::size_t turn_ = 0;    ///< whose step it is
  std::size_t issues_ = 0;  ///< whose instruction waits to issue, if `pending_`
  bool pending_ = false;
  Ticks hold_ = 0;  ///< nothing is reached before: a kernel may begin
  int number_;
  std::int64_t reserved_ = 0;
};

}  // namespace tilesim::isa
