// A core at instruction level: its sequencers and the units that they share.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "tilesim/isa/live/sequencer.hpp"

namespace tilesim::isa {

/// Times are cycles of the core. What is offered or started comes at a time before which everything has issued.
class LiveCore {
 public:
  explicit LiveCore(std::shared_ptr<PipelineTable> table) : table_(std::move(table)), units_(table_->core) {}
  LiveCore(const LiveCore&) = delete;
  LiveCore& operator=(const LiveCore&) = delete;

  /// Made when it is first asked for; the order in which they are makes no difference.
  Sequencer& sequencer(int number);
  /// Cycle of the next instruction that issues; below zero: none.
  std::int64_t next() const;
  /// Issues what issues before `until`, but nothing after the first cycle in which something is told.
  void advance(std::int64_t until, std::vector<LiveEvent>& events);
  const CoreUnits& units() const { return units_; }
  CoreUnits& units() { return units_; }

 private:
  std::shared_ptr<PipelineTable> table_;
  CoreUnits units_;
  std::map<int, std::unique_ptr<Sequencer>> sequencers_;
};

}  // namespace tilesim::isa
