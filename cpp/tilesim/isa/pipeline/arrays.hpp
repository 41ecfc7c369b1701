// Timing of systolic arrays: rows that stream through, loads of weights, and results.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "tilesim/isa/pipeline/timing.hpp"

namespace tilesim::isa {

/// Use of an array by an instruction.
enum class ArrayWork : std::uint8_t { none, weights, push, pop, target };

/// Timing of a weight-stationary array between a queue of input rows and a queue of result rows. Calls are in program
/// order; rows are counted from the first.
class ArrayClock {
 public:
  explicit ArrayClock(const ArrayTiming& timing) : timing_(&timing) {}

  /// Earliest start of an instruction on `rows` rows.
  Ticks earliest(ArrayWork work, std::int64_t rows, Ticks beats, unsigned dtype) const;
  /// Starts an instruction, which accesses registers for `held`.
  void start(ArrayWork work, std::int64_t rows, Ticks at, Ticks held, unsigned dtype);

  Ticks free() const { return free_; }        ///< time at which the next row may stream
  Ticks swapped() const { return swapped_; }  ///< time since which the last set of weights is in use
  Ticks busy() const { return busy_; }
  Ticks loading() const { return loading_; }  ///< end of the loads of weights
  /// Whether results of later rows go to memory without further instructions.
  void keeps_results(bool keeps) { keeps_ = keeps; }
  Ticks over() const { return keeps_ ? free_ + fill() : 0; }  ///< end of results that go to memory
  void state(Ticks now, std::vector<Ticks>& to) const;
  /// Advances all times by `by` and counts by `times` repetitions of the work since `before`.
  void repeat(const ArrayClock& before, Ticks by, std::int64_t times);

 private:
  /// `count` rows up to number `end`: the last one at time `last`, the others `each` ticks apart.
  struct Rows {
    std::int64_t end = 0, count = 0;
    Ticks last = 0, each = 0;
  };
  static Ticks time_of(const std::deque<Rows>& all, std::int64_t row);
  void forget(std::deque<Rows>& all) const;
  Ticks fill() const { return (timing_->rows + timing_->columns - 2) * cycle; }

  const ArrayTiming* timing_;
  Ticks free_ = 0, weights_free_ = 0, shadow_ready_ = 0, swapped_ = 0, busy_ = 0, loading_ = 0;
  bool keeps_ = false;
  std::int64_t filled_ = 0, pushed_ = 0, popped_ = 0;
  std::deque<Rows> streamed_, ready_, taken_;
};

}  // namespace tilesim::isa
