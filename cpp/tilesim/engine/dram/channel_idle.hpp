// Fast path for long idle periods: refreshes repeat, and one step accounts for many repetitions. Included only by
// channel_run.hpp.
#pragma once

#include "tilesim/engine/dram/channel_tick.hpp"

namespace tilesim::engine::dram {

inline constexpr Tick rebase_at = 1 << 28;
inline constexpr std::int64_t least_rounds = 4;  ///< in shorter periods, every tick is simulated
inline constexpr int most_rounds = 64;           ///< limit on the number of rounds before the search stops

/// Whether the channel has no work except refreshes.
template <class Mask>
bool ChannelOf<Mask>::idle() const {
  return outstanding() == 0 && queues_.count[0] == 0 && queues_.opened[0] == 0 && pending_bank_ < 0 && !held_;
}

/// Ticks after which an idle channel may repeat its state: all banks were refreshed, and the number of ticks is even.
template <class Mask>
std::int64_t ChannelOf<Mask>::idle_round() const {
  if (next_refresh_ == never) return 1 << 10;
  const std::int64_t turns = per_bank_ ? bank_count(scope_banks(0)) : 1, ticks = turns * refresh_interval_;
  return ticks % 2 == 0 ? ticks : 2 * ticks;
}

/// The state that determines an idle channel's future. Ticks are relative to now, or zero if they have passed.
template <class Mask>
std::vector<std::int64_t> ChannelOf<Mask>::idle_state() const {
  const auto left = [&](Tick tick) { return std::max<std::int64_t>(std::int64_t{tick} - now_, 0); };
  const std::int64_t refresh = next_refresh_ == never ? never : left(next_refresh_);
  const std::int64_t turn = per_bank_ ? next_bank_ : 0;
  std::vector<std::int64_t> state{now_ & 1, turn, drain_, refresh, left(sync_until_), left(paired_edge_)};
  readiness_.add_state(now_, state);
  const auto add = [&](Mask banks) {
    state.push_back(static_cast<std::int64_t>(static_cast<std::uint64_t>(banks)));
    if constexpr (sizeof(Mask) > 8) state.push_back(static_cast<std::int64_t>(static_cast<std::uint64_t>(banks >> 64)));
  };
  add(queues_.open);
  if (paired_edge_ > now_) {
    add(paired_blocked_);
    add(paired_scope_banks_);
  }
  if (closes_idle_)
    for (Mask rest = queues_.open; rest != 0; rest &= rest - 1)
      state.push_back(left(idle_at_.at[static_cast<std::size_t>(first_bank(rest))]));
  state.insert(state.end(), maintenance_.begin(), maintenance_.end());
  return state;
}

/// Simulates all ticks up to and including `end`, in which no request is queued.
template <class Mask>
template <Bus bus>
void ChannelOf<Mask>::step_idle(std::int64_t end) {
  while (now() < end) {
    const auto until = static_cast<Tick>(std::min<std::int64_t>(end - base_, rebase_at));
    for (Tick next = next_tick<bus>(); next <= until; next = next_tick<bus>()) {
      tick<bus>(next);
      now_ = next;
    }
    now_ = until;
    if (now_ >= rebase_at) rebase();
  }
  columns_plan_ = rows_plan_ = 0;
}

/// Advances towards tick `target` while no request is queued. Simulates rounds until a round starts in the state of an
/// earlier one (cycle detection of Brent, BIT 20, 1980), then skips as many repetitions as fit before `target`.
template <class Mask>
template <Bus bus>
void ChannelOf<Mask>::skip_idle(std::int64_t target) {
  may_skip_ = false;
  const std::int64_t round = idle_round();
  if (!idle() || target - now() < least_rounds * round) return;
  rebase();
  std::vector<std::int64_t> first = idle_state();
  auto commands = counters_.commands;
  std::int64_t rounds = 0, power = 1;
  for (int tried = 0; tried < most_rounds && target - now() >= round; ++tried) {
    worked(1 << 8);
    step_idle<bus>(now() + round);
    ++rounds;
    if (idle_state() == first) {
      const std::int64_t times = (target - now()) / (rounds * round);
      base_ += times * rounds * round;
      for (std::size_t i = 0; i < commands.size(); ++i)
        counters_.commands[i] += times * (counters_.commands[i] - commands[i]);
      return;
    }
    if (rounds < power) continue;
    first = idle_state();
    commands = counters_.commands;
    rounds = 0;
    power *= 2;
  }
}

}  // namespace tilesim::engine::dram
