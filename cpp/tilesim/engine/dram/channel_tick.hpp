// What a channel chooses in a tick, and when the next tick comes in which it can choose anything. Included by
// channel.cpp alone: a header so that the choice is compiled together with its loop.
#pragma once

#include "tilesim/engine/dram/channel.hpp"
#include "tilesim/engine/dram/channel_issue.hpp"
#include "tilesim/engine/dram/lanes.hpp"

namespace tilesim::engine::dram {

/// First odd tick (rising edge) from `t` on.
inline Tick rising(Tick t) { return t | 1; }

/// Earliest tick at which the candidates of one bank and queue can go.
template <Channel::Bus bus>
Tick Channel::bank_ready(std::size_t queue, int bank, Tick c) const {
  const auto b = static_cast<std::size_t>(bank);
  const std::uint64_t bit = 1ULL << bank;
  const auto edge = [&](Tick t) { return bus == Bus::both_edges ? rising(std::max(t, c + 1)) : t; };
  Tick ready = never;
  if (queues_.hit[queue] & bit) ready = edge(ready_[queue].at[b]);
  if (queues_.miss[queue] & bit) {
    if (!(queues_.open & bit))
      ready = std::min(ready, edge(ready_[static_cast<std::size_t>(Command::activate)].at[b]));
    else if (!((queues_.opened[0] | queues_.opened[1]) & bit))
      ready = std::min(ready, ready_[static_cast<std::size_t>(Command::precharge)].at[b]);
  }
  return ready;
}

template <Channel::Bus bus>
Tick Channel::next_tick() const {
  // What was accepted at cycle c is seen from tick c + 1 on.
  const Tick soon = static_cast<Tick>(std::max(base_ + now_, last_accept_) - base_) + 1;
  if (bus == Bus::two_step && (held_ || pending_bank_ >= 0)) return soon;
  Tick rise = std::min(earliest(queues_.opened[0], ready_[0], timing_.blocks),
                       earliest(queues_.opened[1], ready_[1], timing_.blocks));
  Tick any = never;
  if (maintenance_.empty()) {
    if (drain_flips()) return soon;
    const auto queue = static_cast<std::size_t>(drain_);
    const std::uint64_t miss = queues_.miss[queue], openers = queues_.opened[0] | queues_.opened[1];
    rise = std::min(rise, earliest(queues_.hit[queue], ready_[queue], timing_.blocks));
    rise = std::min(
        rise, earliest(miss & ~queues_.open, ready_[static_cast<std::size_t>(Command::activate)], timing_.blocks));
    any =
        earliest(miss & queues_.open & ~openers, ready_[static_cast<std::size_t>(Command::precharge)], timing_.blocks);
  } else {
    const auto [ready, precharge] = maintenance_ready();
    (precharge ? any : rise) = std::min(precharge ? any : rise, ready);
  }
  rise = std::max(rise, soon);
  if (bus == Bus::both_edges) rise = rising(rise);
  return std::max(soon, std::min({rise, any, next_refresh_}));
}

inline Tick Channel::all_bank_ready(Command command, int scope) const {
  const std::size_t kind = command == Command::precharge_all ? 0 : 1;
  Tick ready = long_ago;
  for (std::size_t after = 0; after < command_count; ++after)
    for (int s = 0; s < timing_.scopes; ++s) {
      const Tick delay = s == scope ? timing_.to_all_same[after][kind] : timing_.to_all_other[after][kind];
      ready = std::max(ready, last_[after][static_cast<std::size_t>(s)] + delay);
    }
  return ready;
}

/// When the refresh job at the head can go on, and whether with PREab.
inline std::pair<Tick, bool> Channel::maintenance_ready() const {
  const int scope = maintenance_.front();
  const std::uint64_t banks = timing_.scope_banks[static_cast<std::size_t>(scope)];
  const bool precharge = (queues_.open & banks) != 0;
  if (((queues_.opened[0] | queues_.opened[1] | activating()) & banks) != 0) return {never, precharge};
  return {all_bank_ready(precharge ? Command::precharge_all : Command::refresh_all, scope), precharge};
}

inline void Channel::refresh_due(Tick t) {
  if (t < next_refresh_) return;
  for (int scope = 0; scope < timing_.scopes; ++scope) maintenance_.push_back(scope);
  next_refresh_ += refresh_interval_;
}

/// The command of the head refresh job, if it is ready.
inline bool Channel::serve_maintenance(Tick t, bool precharge_only) {
  const auto [ready, precharge] = maintenance_ready();
  if (ready > t || (precharge_only && !precharge)) return false;
  issue_all(precharge ? Command::precharge_all : Command::refresh_all, maintenance_.front(), t);
  return true;
}

inline Channel::Pick Channel::pick_opened(Tick t) const {
  const Tick read = oldest_ready(queues_.opened[0], ready_[0], queues_.opened_key, t, timing_.blocks);
  const Tick write = oldest_ready(queues_.opened[1], ready_[1], queues_.opened_key, t, timing_.blocks);
  return read <= write ? Pick{read, Command::read, true} : Pick{write, Command::write, true};
}

inline Channel::Pick Channel::pick_hit(Tick t) const {
  const auto queue = static_cast<std::size_t>(drain_);
  const Tick key = oldest_ready(queues_.hit[queue], ready_[queue], queues_.hit_key[queue], t, timing_.blocks);
  return {key, drain_ ? Command::write : Command::read, false};
}

/// Oldest ready ACT (unless only precharges may go) or PREpb of the selected queue among the banks `allowed`.
inline Channel::Pick Channel::pick_row(Tick t, std::uint64_t allowed, bool activates) const {
  const auto queue = static_cast<std::size_t>(drain_);
  const std::uint64_t miss = queues_.miss[queue] & allowed, openers = queues_.opened[0] | queues_.opened[1];
  const PerBank& keys = queues_.miss_key[queue];
  const Tick activate = activates ? oldest_ready(miss & ~queues_.open, ready_[2], keys, t, timing_.blocks) : never;
  const Tick precharge = oldest_ready(miss & queues_.open & ~openers, ready_[3], keys, t, timing_.blocks);
  return activate < precharge ? Pick{activate, Command::activate, false} : Pick{precharge, Command::precharge, false};
}

inline void Channel::issue_pick(const Pick& pick, Tick t) {
  const int bank = pick.key % bank_limit;
  const auto queue = static_cast<std::size_t>(drain_);
  switch (pick.command) {
    case Command::read:
      return issue_column(0, bank, pick.opener, t);
    case Command::write:
      return issue_column(1, bank, pick.opener, t);
    case Command::activate:
      return issue_activate(queue, bank, t);
    default:
      return issue_precharge(queue, bank, t);
  }
}

/// One command per tick: opened rows, then refresh, then the selected queue.
inline void Channel::tick_shared(Tick t) {
  if (const Pick opened = pick_opened(t); opened.key != never) return issue_pick(opened, t);
  if (!maintenance_.empty()) {
    serve_maintenance(t, false);
    return;
  }
  update_drain();
  Pick pick = pick_hit(t);
  if (const Pick row = pick_row(t, ~0ULL, true); row.key < pick.key) pick = row;
  if (pick.key != never) issue_pick(pick, t);
}

/// A column command, then a row command, which sees the state that the first one left.
template <bool both_edges>
void Channel::tick_row_and_column(Tick t) {
  const bool falling = both_edges && (t & 1) == 0;
  if (!falling) {
    Pick pick = pick_opened(t);
    if (pick.key == never && maintenance_.empty()) {
      update_drain();
      pick = pick_hit(t);
    }
    if (pick.key != never) issue_pick(pick, t);
  }
  const std::uint64_t allowed = falling && t == paired_edge_ ? ~paired_blocked_ : ~0ULL;
  if (!maintenance_.empty()) {
    const std::uint64_t banks = timing_.scope_banks[static_cast<std::size_t>(maintenance_.front())];
    // On the falling edge paired with a row command its pseudo-channel takes no PREab.
    const bool refused = falling && t == paired_edge_ && (paired_scope_banks_ & banks) != 0;
    if (!refused) serve_maintenance(t, falling);
    return;
  }
  update_drain();
  const Pick pick = pick_row(t, allowed, !falling);
  if (pick.key != never) issue_pick(pick, t);
}

/// ACT in two steps, and a CAS command a tick ahead of a burst that finds the data clock stopped.
inline void Channel::tick_two_step(Tick t) {
  if (held_) {
    held_ = false;
    return issue_pick(held_pick_, t);
  }
  if (pending_bank_ >= 0 && pending_deadline_ <= t) return issue_second_activate();
  Pick pick = pick_opened(t);
  if (pick.key == never && !maintenance_.empty()) {
    if (serve_maintenance(t, false)) return;
  } else if (pick.key == never) {
    update_drain();
    pick = pick_hit(t);
    const Pick row = pick_row(t, ~activating(), pending_bank_ < 0);
    if (row.key < pick.key) pick = row;
  }
  if (pick.key == never) {
    if (pending_bank_ >= 0) issue_second_activate();
    return;
  }
  const bool column = pick.command == Command::read || pick.command == Command::write;
  if (!column || !has_sync_ || t < sync_until_) return issue_pick(pick, t);
  if (pending_bank_ >= 0 && pending_deadline_ <= t + 1) return issue_second_activate();
  held_ = true;
  held_pick_ = pick;
}

template <Channel::Bus bus>
void Channel::tick(Tick t) {
  refresh_due(t);
  if constexpr (bus == Bus::shared)
    tick_shared(t);
  else if constexpr (bus == Bus::row_and_column)
    tick_row_and_column<false>(t);
  else if constexpr (bus == Bus::both_edges)
    tick_row_and_column<true>(t);
  else
    tick_two_step(t);
}

}  // namespace tilesim::engine::dram
