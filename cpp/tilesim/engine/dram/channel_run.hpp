// Acceptance of requests, and the loop over ticks. Included only by channel.cpp and channel_wide.cpp: compilers inline
// less in a file that instantiates both mask types.
#pragma once

#include <algorithm>
#include <cmath>

#include "tilesim/base/error.hpp"
#include "tilesim/engine/dram/channel_idle.hpp"
#include "tilesim/engine/dram/channel_stream.hpp"

namespace tilesim::engine::dram {

template <class Mask>
ChannelOf<Mask>::ChannelOf(const Part& part)
    : readiness_(part),
      queues_(part.controller.read_queue, part.controller.write_queue, part.banks()),
      capacity_{part.controller.read_queue, part.controller.write_queue},
      read_latency_(static_cast<Tick>(part.read_latency)),
      refresh_interval_(static_cast<Tick>(part.refresh_interval)) {
  const Features& f = part.features;
  if (f.row_and_column_bus) bus_ = f.both_edges ? Bus::both_edges : Bus::row_and_column;
  if (f.two_step_activate || f.clock_sync) bus_ = Bus::two_step;
  two_step_ = f.two_step_activate;
  has_sync_ = f.clock_sync;
  activate_window_ = static_cast<Tick>(f.activate_window);
  sync_ = {static_cast<Tick>(f.sync_read), static_cast<Tick>(f.sync_write)};
  columns_touch_rows_ = readiness_.timing().columns_touch_rows;
  for (const std::size_t row : {2, 3})
    for (const Timing::Effect& effect : readiness_.timing().effects[row]) rows_touch_columns_ |= effect.before < 2;
  const auto entries = static_cast<double>(capacity_[1]);
  drain_high_ = static_cast<std::int64_t>(std::floor(part.controller.write_high_watermark * entries)) + 1;
  drain_low_ = static_cast<std::int64_t>(std::ceil(part.controller.write_low_watermark * entries)) - 1;
  per_bank_ = part.controller.refresh == RefreshMode::per_bank;
  if (per_bank_) refresh_interval_ = static_cast<Tick>(part.refresh_bank_interval);
  if (part.controller.refresh != RefreshMode::none) next_refresh_ = refresh_interval_;
  closes_idle_ = part.controller.page != PagePolicy::open;
  page_timeout_ = static_cast<Tick>(part.controller.page_timeout);
  idle_at_.at.fill(long_ago);
}

template <class Mask>
[[gnu::always_inline]] inline bool ChannelOf<Mask>::accept(const Request& request, Tick c) {
  newcomer_leads_ = false;
  const auto queue = static_cast<std::size_t>(request.write);
  if (queues_.count[1] != 0 && queues_.holds_write(request.address, request.bank)) {
    QueuedRequest entry;
    entry.arrival = base_ + c;
    entry.tag = request.tag;
    if (request.write) {
      ++counters_.merged;
      if (completions_) completions_->push_back({request.tag, true, base_ + c + 1});
    } else {
      ++counters_.forwarded;
      finish_read(entry, base_ + c + 1);
    }
  } else {
    if (queues_.count[queue] == capacity_[queue]) {
      refused_ = queue;
      refused_at_ = capacity_[queue];
      return false;
    }
    newcomer_leads_ = queues_.push(queue, request.bank, request.row, request.address, request.tag, base_ + c);
    reads_waiting_ += request.write ? 0 : 1;
  }
  ++(request.write ? counters_.writes : counters_.reads);
  last_accept_ = base_ + c;
  refused_at_ = -1;
  return true;
}

/// Accepts requests that are due before tick `next`. Returns the next tick, which an accepted request may make earlier.
template <class Mask>
template <Bus bus>
Tick ChannelOf<Mask>::accept_due(Tick next, bool planned) {
  while (!offers_.empty()) {
    const Request& request = offers_.front();
    const std::int64_t at = std::max({base_ + now_, next_offer_, request.not_before});
    if (at - base_ >= next && next != never) break;
    if (at - base_ >= rebase_at) {  // no command issues before that tick
      now_ = rebase_at;
      return now_;
    }
    const auto c = static_cast<Tick>(at - base_);
    const int bank = request.bank;
    const auto queue = static_cast<std::size_t>(request.write);
    if (!accept(request, c)) break;
    offers_.pop_front();
    next_offer_ = at + 1;
    if (!queue_may_go()) continue;
    if (drain_flips()) {
      next = std::min(next, c + 1);
    } else if (queue == static_cast<std::size_t>(drain_)) {
      if (planned) {
        if (newcomer_leads_) plan_newcomer<bus>(queue, bank, c);
        next = std::min(next, plan_tick(std::min(columns_plan_, rows_plan_)));
      } else {
        next = std::min(next, std::max(c + 1, bank_ready<bus>(queue, bank, c)));
      }
    }
  }
  return next;
}

template <class Mask>
template <Bus bus>
void ChannelOf<Mask>::run(Tick until, Until mode) {
  ends_when_accepted_ = mode != Until::tick;
  for (;;) {
    if (now_ >= rebase_at) {
      const Tick before = now_;
      rebase();
      if (until != never) until -= before - now_;
      may_skip_ = true;
    }
    if (may_skip_) [[unlikely]] {
      may_skip_ = false;
      if (until == never && !offers_.empty()) skip_idle<bus>(next_due());
    }
    settle();
    const bool planned = bus != Bus::two_step && maintenance_.empty() && !closes_idle_;
    Tick next = until == never ? never : until + 1;
    if (planned) {
      const Tick first = soon();
      if (plan_tick(columns_plan_) < first) columns_plan_ = plan_columns<bus>(first);
      if (plan_tick(rows_plan_) < first) rows_plan_ = plan_rows<bus>(first);
      if (streams()) stream<bus>(std::min({next, next_refresh_, rebase_at}));
      next = std::min({next, next_refresh_, plan_tick(std::min(columns_plan_, rows_plan_))});
      if (drain_flips()) next = std::min(next, soon());
    } else {
      columns_plan_ = rows_plan_ = 0;
      next = std::min(next, next_tick<bus>());
    }
    if (may_accept()) next = accept_due<bus>(next, planned);
    if (next == now_) continue;  // accept_due only advanced now_ for a rebase
    if (mode == Until::accepted && offers_.empty()) return;
    if (mode == Until::drained && offers_.empty() && reads_waiting_ == 0) return;
    if (next > until) return;
    require(next != never, "a DRAM channel is deadlocked");
    if (planned && next != next_refresh_ && !drain_flips()) {
      tick_planned<bus>(next);
    } else {
      tick<bus>(next);
      columns_plan_ = rows_plan_ = 0;
    }
    now_ = next;
  }
}

template <class Mask>
void ChannelOf<Mask>::run_bus(Tick until, Until mode) {
  switch (bus_) {
    case Bus::shared:
      return run<Bus::shared>(until, mode);
    case Bus::row_and_column:
      return run<Bus::row_and_column>(until, mode);
    case Bus::both_edges:
      return run<Bus::both_edges>(until, mode);
    case Bus::two_step:
      return run<Bus::two_step>(until, mode);
  }
}

template <class Mask>
void ChannelOf<Mask>::skip_bus(std::int64_t target) {
  switch (bus_) {
    case Bus::shared:
      return skip_idle<Bus::shared>(target);
    case Bus::row_and_column:
      return skip_idle<Bus::row_and_column>(target);
    case Bus::both_edges:
      return skip_idle<Bus::both_edges>(target);
    case Bus::two_step:
      return skip_idle<Bus::two_step>(target);
  }
}

template <class Mask>
void ChannelOf<Mask>::advance(std::int64_t tick) {
  while (now() < tick) {
    const std::int64_t reached = std::min(tick, now() + rebase_at / 16);
    if (reached < tick) skip_bus(offers_.empty() ? tick : std::min(tick, next_due()));
    run_bus(static_cast<Tick>(std::max(reached, now()) - base_), Until::tick);
    if (reached > now()) now_ = static_cast<Tick>(reached - base_);
    if (now_ >= rebase_at) rebase();
  }
}

template <class Mask>
void ChannelOf<Mask>::advance_until_accepted() {
  run_bus(never, Until::accepted);
}

template <class Mask>
std::int64_t ChannelOf<Mask>::finish() {
  run_bus(never, Until::drained);
  const std::int64_t stop = std::max(last_return_, last_accept_ + 1);
  advance(stop);
  return stop;
}

template <class Mask>
void ChannelOf<Mask>::rebase() {
  const Tick by = now_ & ~1;  // an even number keeps rising edges on odd ticks
  readiness_.rebase(by);
  for (Tick& tick : idle_at_.at) tick = moved(tick, by);
  if (next_refresh_ != never) next_refresh_ -= by;
  if (pending_deadline_ != never) pending_deadline_ -= by;
  sync_until_ = moved(sync_until_, by);
  paired_edge_ = moved(paired_edge_, by);
  columns_plan_ = rows_plan_ = 0;
  base_ += by;
  now_ -= by;
}

}  // namespace tilesim::engine::dram
