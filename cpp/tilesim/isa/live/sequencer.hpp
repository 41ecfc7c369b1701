// Sequencer: the front end of a core's queue. It runs kernels in order, on units that all sequencers of the core
// share.
#pragma once

#include <array>
#include <limits>
#include <memory>
#include <vector>

#include "tilesim/isa/live/kernel.hpp"

namespace tilesim::isa {

/// An event of a kernel, reported when it is final: at least one cycle after the instruction that determines it.
struct LiveEvent {
  enum Kind : std::uint8_t {
    consumed,  ///< the kernel's operands have been read
    free,      ///< the sequencer can start another kernel
    done,      ///< the kernel's last result is ready
  };
  std::uint64_t tag = 0;
  Kind kind = done;
  std::int64_t cycle = 0;
};

/// Runs kernels. Once a kernel has loaded its last weights, it only pushes rows and takes results, and the next kernel
/// starts. Their steps then alternate as in a joint schedule: one of the ending kernel up to its store, one of the
/// starting kernel up to its weights or push. Rows and results keep the order of the kernels.
class Sequencer {
 public:
  static constexpr Ticks never = std::numeric_limits<Ticks>::max();

  /// `units` must outlive it. `number`: its index in the core; if instructions issue at the same time, lower indices go
  /// first.
  Sequencer(std::shared_ptr<PipelineTable> table, CoreUnits& units, int number);

  int number() const { return number_; }
  bool idle(std::int64_t at) const { return runs_[begun_].kernel == nullptr && reserved_ <= at; }
  /// Starts a kernel at cycle `at`; it must be idle.
  void start(const LiveKernel& kernel, std::uint64_t tag, std::int64_t at, std::vector<LiveEvent>& events);
  /// Reserves an idle sequencer until this cycle, for a compute without a kernel.
  void reserve(std::int64_t until);
  /// Time of its next instruction for the units; `never` if none is left.
  Ticks next() const { return !any() ? never : pending_ ? pipeline_.now() : std::max(pipeline_.now(), hold_); }
  /// Issues the instructions before `until`, up to the first event; returns whether there was an event.
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
  /// Whether the ending kernel has rows to push.
  bool pushing() const {
    const Run& ends = runs_[1 - begun_];
    return ends.kernel != nullptr && ends.at() < ends.kernel->pushed;
  }
  bool reach(std::vector<LiveEvent>& events);
  void tell_end(Run& run, std::vector<LiveEvent>& events);

  Pipeline pipeline_;
  CoreUnits* units_;
  std::array<Run, 2> runs_;
  std::size_t begun_ = 0;   ///< index of the last started kernel; the other one is ending
  std::size_t turn_ = 0;    ///< index of the kernel whose step is next
  std::size_t issues_ = 0;  ///< index of the kernel of the pending instruction
  bool pending_ = false;
  Ticks hold_ = 0;  ///< earliest time of the front end for the next kernel
  int number_;
  std::int64_t reserved_ = 0;
};

}  // namespace tilesim::isa
