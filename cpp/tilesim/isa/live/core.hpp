// A core at instruction level: its sequencers and the units that they share.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "tilesim/isa/live/sequencer.hpp"

namespace tilesim::isa {

/// A core at instruction level. Times are its cycles; all earlier issues must precede an offer or start.
class LiveCore {
 public:
  explicit LiveCore(std::shared_ptr<PipelineTable> table) : table_(std::move(table)), units_(table_->core) {}
  LiveCore(const LiveCore&) = delete;
  LiveCore& operator=(const LiveCore&) = delete;

  /// Creates the sequencer at the first call; the order of creation has no effect.
  Sequencer& sequencer(int number);
  /// Cycle of the next instruction to issue; negative: none.
  std::int64_t next() const;
  /// Issues all instructions before `until`, but none after the first cycle with an event.
  void advance(std::int64_t until, std::vector<LiveEvent>& events);
  const CoreUnits& units() const { return units_; }
  CoreUnits& units() { return units_; }

 private:
  std::shared_ptr<PipelineTable> table_;
  CoreUnits units_;
  std::map<int, std::unique_ptr<Sequencer>> sequencers_;
};

}  // namespace tilesim::isa
