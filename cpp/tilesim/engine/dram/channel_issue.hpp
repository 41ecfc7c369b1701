// State changes of a channel for each command. Included only by channel_run.hpp.
#pragma once

#include "tilesim/engine/dram/channel.hpp"
#include "tilesim/engine/dram/lanes.hpp"

namespace tilesim::engine::dram {

/// Updates timing and counters for a bank command; the caller updates the open rows.
template <class Mask>
[[gnu::always_inline]] inline void ChannelOf<Mask>::issue(Command command, int bank, Tick t) {
  readiness_.issue(command, bank, t);
  ++counters_.commands[static_cast<std::size_t>(command)];
}

template <class Mask>
inline void ChannelOf<Mask>::issue_all(Command command, int scope, Tick t) {
  readiness_.issue_all(command, scope, t);
  ++counters_.commands[static_cast<std::size_t>(command)];
  const Mask banks = scope_banks(scope);
  if (command == Command::precharge_all) {
    for (Mask rest = queues_.open & banks; rest != 0; rest &= rest - 1) queues_.precharge(first_bank(rest));
  } else {
    maintenance_.pop_front();
  }
  if ((t & 1) != 0) {
    paired_edge_ = t + 1;
    paired_blocked_ = paired_scope_banks_ = banks;
  }
}

template <class Mask>
[[gnu::always_inline]] inline void ChannelOf<Mask>::finish_read(const QueuedRequest& entry, std::int64_t tick) {
  last_return_ = std::max(last_return_, tick);  // reads return in the order of issue
  const std::int64_t latency = last_return_ - 1 - entry.arrival;
  counters_.latency_sum += latency;
  counters_.latency_max = std::max(counters_.latency_max, latency);
  ++counters_.latency.bins[Histogram::bin(latency)];
  if (completions_) completions_->push_back({entry.tag, false, last_return_});
}

/// Removes the request of a column command and counts it; the caller applies the timing.
template <class Mask>
[[gnu::always_inline]] inline void ChannelOf<Mask>::take_column(std::size_t queue, int bank, bool opener, Tick t) {
  const QueuedRequest& entry = opener ? queues_.opened_entry(bank) : queues_.oldest_hit(queue, bank);
  if (!entry.counted) ++counters_.hits;
  if (queue == Queues::reads) {
    --reads_waiting_;
    finish_read(entry, base_ + t + read_latency_);
  } else if (completions_) {
    completions_->push_back({entry.tag, true, base_ + t});
  }
  ++bank_counters_[static_cast<std::size_t>(bank)].columns;
  ++counters_.commands[queue];
  if (opener)
    queues_.take_opened(queue, bank);
  else
    queues_.take_hit(queue, bank);
}

template <class Mask>
inline void ChannelOf<Mask>::issue_column(std::size_t queue, int bank, bool opener, Tick t) {
  take_column(queue, bank, opener, t);
  if (closes_idle_) idle_at_.at[static_cast<std::size_t>(bank)] = t + page_timeout_;
  if (has_sync_) sync_until_ = std::max(sync_until_, t + sync_[queue]);
  readiness_.issue_column(queue, bank, t);
}

template <class Mask>
inline void ChannelOf<Mask>::issue_activate(std::size_t queue, int bank, Tick t) {
  QueuedRequest& entry = queues_.oldest_miss(queue, bank);
  if (!entry.counted) ++counters_.misses;
  entry.counted = true;
  ++bank_counters_[static_cast<std::size_t>(bank)].activates;
  issue(Command::activate, bank, t);
  if (two_step_) {
    queues_.begin_activate(queue, bank);
    pending_bank_ = bank;
    pending_queue_ = queue;
    pending_deadline_ = t + activate_window_;
    return;
  }
  queues_.begin_activate(queue, bank);
  queues_.end_activate(queue, bank);
  pair(t + 3, bank);
}

template <class Mask>
inline void ChannelOf<Mask>::issue_second_activate() {
  queues_.end_activate(pending_queue_, pending_bank_);
  pending_bank_ = -1;
  pending_deadline_ = never;
}

template <class Mask>
inline void ChannelOf<Mask>::issue_precharge(std::size_t queue, int bank, Tick t) {
  QueuedRequest& entry = queues_.oldest_miss(queue, bank);
  if (!entry.counted) ++counters_.conflicts;
  entry.counted = true;
  issue(Command::precharge, bank, t);
  queues_.precharge(bank);
  if ((t & 1) != 0) pair(t + 1, bank);
}

/// Records that a row command on a rising edge restricts precharges of its pseudo-channel on falling edge `edge`.
template <class Mask>
inline void ChannelOf<Mask>::pair(Tick edge, int bank) {
  paired_edge_ = edge;
  paired_blocked_ = bank_bit<Mask>(bank);
  paired_scope_banks_ = scope_banks(readiness_.timing().scope_of[static_cast<std::size_t>(bank)]);
}

}  // namespace tilesim::engine::dram
