// What a channel's commands change. Included by channel.cpp alone.
#pragma once

#include "tilesim/engine/dram/channel.hpp"
#include "tilesim/engine/dram/lanes.hpp"

namespace tilesim::engine::dram {

/// Timing of a bank command; its effect on rows is the caller's.
inline void Channel::issue(Command command, int bank, Tick t) {
  const auto c = static_cast<std::size_t>(command), b = static_cast<std::size_t>(bank);
  const std::int32_t node = timing_.group_of[b] * timing_.blocks;
  for (const Timing::Effect& effect : timing_.effects[c])
    raise(ready_[static_cast<std::size_t>(effect.before)], &timing_.delays[static_cast<std::size_t>(effect.row + node)],
          t, timing_.blocks);
  for (std::size_t before = 0; before < static_cast<std::size_t>(timing_.befores); ++before)
    ready_[before].at[b] = std::max(ready_[before].at[b], t + timing_.same_bank[c][before]);
  last_[c][timing_.scope_of[b]] = t;
  ++counters_.commands[c];
  if (window_commands_ >> c & 1)
    for (std::size_t i = 0; i < timing_.windows.size(); ++i)
      if (timing_.windows[i].after >> c & 1) open_window(i, bank, t);
}

inline void Channel::open_window(std::size_t which, int bank, Tick t) {
  const Timing::Window& w = timing_.windows[which];
  const auto node = static_cast<std::size_t>(w.node_of[static_cast<std::size_t>(bank)]);
  WindowRing& ring = rings_[which][node];
  ring.ticks[ring.next] = t;
  ring.next = ring.next + 1 == static_cast<std::uint32_t>(w.length) ? 0 : ring.next + 1;
  const Tick oldest = ring.ticks[ring.next];
  if (oldest == long_ago) return;
  const std::int32_t row = w.row + static_cast<std::int32_t>(node) * timing_.blocks;
  raise(ready_[static_cast<std::size_t>(w.before)], &timing_.delays[static_cast<std::size_t>(row)], oldest,
        timing_.blocks);
}

inline void Channel::issue_all(Command command, int scope, Tick t) {
  const auto c = static_cast<std::size_t>(command);
  for (const Timing::Effect& effect : timing_.effects[c])
    raise(ready_[static_cast<std::size_t>(effect.before)],
          &timing_.delays[static_cast<std::size_t>(effect.row + scope * timing_.blocks)], t, timing_.blocks);
  last_[c][static_cast<std::size_t>(scope)] = t;
  ++counters_.commands[c];
  const std::uint64_t banks = timing_.scope_banks[static_cast<std::size_t>(scope)];
  if (command == Command::precharge_all) {
    for (std::uint64_t rest = queues_.open & banks; rest != 0; rest &= rest - 1)
      queues_.precharge(std::countr_zero(rest));
  } else {
    maintenance_.pop_front();
  }
  if ((t & 1) != 0) {
    paired_edge_ = t + 1;
    paired_blocked_ = paired_scope_banks_ = banks;
  }
}

inline void Channel::issue_column(std::size_t queue, int bank, bool opener, Tick t) {
  Entry& entry = opener ? queues_.opened_entry(bank) : queues_.oldest_hit(queue, bank);
  if (!entry.counted) ++counters_.hits;
  if (queue == Queues::reads) {
    --reads_waiting_;
    finish_read(entry, base_ + t + read_latency_);
  } else if (completions_) {
    completions_->push_back({entry.tag, true, base_ + t});
  }
  ++bank_counters_[static_cast<std::size_t>(bank)].columns;
  if (closes_idle_) idle_at_.at[static_cast<std::size_t>(bank)] = t + page_timeout_;
  if (has_sync_) sync_until_ = std::max(sync_until_, t + sync_[queue]);
  issue(queue == Queues::reads ? Command::read : Command::write, bank, t);
  if (opener)
    queues_.take_opened(queue, bank);
  else
    queues_.take_hit(queue, bank);
}

inline void Channel::issue_activate(std::size_t queue, int bank, Tick t) {
  Entry& entry = queues_.oldest_miss(queue, bank);
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

inline void Channel::issue_second_activate() {
  queues_.end_activate(pending_queue_, pending_bank_);
  pending_bank_ = -1;
  pending_deadline_ = never;
}

inline void Channel::issue_precharge(std::size_t queue, int bank, Tick t) {
  Entry& entry = queues_.oldest_miss(queue, bank);
  if (!entry.counted) ++counters_.conflicts;
  entry.counted = true;
  issue(Command::precharge, bank, t);
  queues_.precharge(bank);
  if ((t & 1) != 0) pair(t + 1, bank);
}

/// A row command of a rising edge restricts precharges of its pseudo-channel on one falling edge.
inline void Channel::pair(Tick edge, int bank) {
  paired_edge_ = edge;
  paired_blocked_ = 1ULL << bank;
  paired_scope_banks_ = timing_.scope_banks[timing_.scope_of[static_cast<std::size_t>(bank)]];
}

}  // namespace tilesim::engine::dram
