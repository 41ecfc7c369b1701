#include "tilesim/isa/pipeline/arrays.hpp"

#include <algorithm>

#include "tilesim/base/error.hpp"

namespace tilesim::isa {

namespace {

Ticks row_time(const ArrayTiming& timing, unsigned dtype) {
  const Ticks each = dtype < timing.row.size() ? timing.row[dtype] : 0;
  if (each == 0)
    throw Unsupported(
        {"the core's arrays do not multiply this type", {}, "element type " + std::to_string(dtype), {}, {}});
  return each;
}

}  // namespace

/// Time of row number `row`, counted from 1; 0 for rows no longer stored, which are past.
Ticks ArrayClock::time_of(const std::deque<Rows>& all, std::int64_t row) {
  for (const Rows& rows : all)
    if (row <= rows.end) return row <= rows.end - rows.count ? 0 : rows.last - (rows.end - row) * rows.each;
  throw InternalError("an array waits for a row that no instruction sends");
}

Ticks ArrayClock::earliest(ArrayWork work, std::int64_t rows, Ticks beats, unsigned dtype) const {
  switch (work) {
    case ArrayWork::weights:
      return weights_free_ - timing_->input_rows * timing_->weight_row;
    case ArrayWork::push: {
      row_time(*timing_, dtype);
      const std::int64_t leaves = pushed_ + rows - timing_->input_rows;
      return leaves > 0 ? time_of(streamed_, std::min(leaves, pushed_)) : 0;
    }
    case ArrayWork::pop:
      return std::max(time_of(ready_, popped_ + rows) - (beats - cycle), time_of(ready_, popped_ + 1));
    case ArrayWork::target:
    case ArrayWork::none:
      break;
  }
  return 0;
}

void ArrayClock::start(ArrayWork work, std::int64_t rows, Ticks at, Ticks held, unsigned dtype) {
  switch (work) {
    case ArrayWork::weights: {
      weights_free_ = std::max(weights_free_, at + cycle);
      if (timing_->double_buffer) weights_free_ = std::max(weights_free_, swapped_) + rows * timing_->weight_row;
      filled_ += rows, loading_ += rows * timing_->weight_row;
      if (filled_ >= timing_->rows) shadow_ready_ = weights_free_;
      return;
    }
    case ArrayWork::push: {
      const Ticks each = row_time(*timing_, dtype);
      Ticks begin = std::max(free_, at + cycle);
      if (filled_ >= timing_->rows) {
        // a single set waits in the queue, and loads when all earlier rows have left the array
        if (!timing_->double_buffer) {
          shadow_ready_ = std::max(shadow_ready_, free_ + (pushed_ > 0 ? fill() : 0));
          weights_free_ = shadow_ready_ += timing_->rows * timing_->weight_row;
        }
        begin = swapped_ = std::max(begin, shadow_ready_), filled_ = 0;
      }
      // the array itself holds the results of rows that precede the next pop in program order
      const std::int64_t taken = std::min(pushed_ + rows - timing_->result_rows, popped_);
      if (taken > 0 && !keeps_) begin = std::max(begin, time_of(taken_, taken) - fill());
      free_ = begin + rows * each, busy_ += rows * each, pushed_ += rows;
      streamed_.push_back({pushed_, rows, free_ - each, each});
      if (keeps_)
        popped_ = pushed_;
      else
        ready_.push_back({pushed_, rows, free_ + fill(), each});
      forget(streamed_);
      return;
    }
    case ArrayWork::pop:
      popped_ += rows;
      taken_.push_back({popped_, rows, at + held, 0});
      while (!ready_.empty() && ready_.front().end <= popped_) ready_.pop_front();
      forget(taken_);
      return;
    case ArrayWork::target:
    case ArrayWork::none:
      return;
  }
}

/// Drops rows that no queue can refer to any more.
void ArrayClock::forget(std::deque<Rows>& all) const {
  const std::int64_t reach = pushed_ - std::max(timing_->input_rows, timing_->result_rows);
  while (all.size() > 1 && all.front().end <= reach) all.pop_front();
}

void ArrayClock::state(Ticks now, std::vector<Ticks>& to) const {
  const auto from_now = [&](Ticks t) { to.push_back(std::max<Ticks>(t - now, 0)); };
  from_now(free_), from_now(weights_free_ + timing_->input_rows * timing_->weight_row), from_now(shadow_ready_);
  from_now(swapped_);
  from_now(free_ + fill());
  to.push_back(filled_), to.push_back(pushed_ - popped_);
  const auto list = [&](const std::deque<Rows>& all, std::int64_t counted) {
    for (const Rows& rows : all) {
      if (rows.last <= now) continue;
      to.push_back(rows.end - counted), to.push_back(rows.count), to.push_back(rows.each), from_now(rows.last);
    }
    to.push_back(-1);
  };
  list(streamed_, pushed_), list(ready_, popped_), list(taken_, popped_);
}

void ArrayClock::repeat(const ArrayClock& before, Ticks by, std::int64_t times) {
  busy_ += (busy_ - before.busy_) * times, loading_ += (loading_ - before.loading_) * times;
  free_ += by, weights_free_ += by, shadow_ready_ += by, swapped_ += by;
  for (std::deque<Rows>* all : {&streamed_, &ready_, &taken_})
    for (Rows& rows : *all) rows.last += by;
}

}  // namespace tilesim::isa
