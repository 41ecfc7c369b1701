// Selects a channel's commands of one tick, and finds the next tick in which a command may issue. It is a header,
// included only by channel_run.hpp, so that the compiler can inline it into the loop.
#pragma once

#include <string>

#include "tilesim/base/error.hpp"
#include "tilesim/base/interrupt.hpp"
#include "tilesim/engine/dram/channel.hpp"
#include "tilesim/engine/dram/channel_issue.hpp"
#include "tilesim/engine/dram/lanes.hpp"

namespace tilesim::engine::dram {

/// First odd tick (rising edge) from `t` on.
inline Tick rising(Tick t) { return t | 1; }

/// Earliest tick in which a candidate of this bank and queue may issue.
template <class Mask>
template <Bus bus>
Tick ChannelOf<Mask>::bank_ready(std::size_t queue, int bank, Tick c) const {
  const auto b = static_cast<std::size_t>(bank);
  const Mask bit = bank_bit<Mask>(bank);
  const auto edge = [&](Tick t) { return bus == Bus::both_edges ? rising(std::max(t, c + 1)) : t; };
  Tick ready = never;
  if (refreshing() & bit) return never;
  if (queues_.hit[queue] & bit) ready = edge(readiness_.ready[queue].at[b]);
  if (queues_.miss[queue] & bit) {
    if (!(queues_.open & bit))
      ready = maintenance_.empty() ? std::min(ready, edge(readiness_.ready[2].at[b])) : ready;
    else if (!((queues_.opened[0] | queues_.opened[1]) & bit))
      ready = std::min(ready, readiness_.ready[3].at[b]);
  }
  return ready;
}

template <class Mask>
template <Bus bus>
Tick ChannelOf<Mask>::next_tick() const {
  const Tick soon = this->soon();
  if (bus == Bus::two_step && (held_ || pending_bank_ >= 0)) return soon;
  Tick rise = std::min(earliest(queues_.opened[0], readiness_.ready[0], readiness_.timing().blocks),
                       earliest(queues_.opened[1], readiness_.ready[1], readiness_.timing().blocks));
  Tick any = never;
  if (!maintenance_.empty()) {
    const auto [ready, precharge] = maintenance_ready();
    (precharge ? any : rise) = std::min(precharge ? any : rise, ready);
  }
  if (queue_may_go()) {
    if (drain_flips()) return soon;
    const auto queue = static_cast<std::size_t>(drain_);
    const Mask allowed = ~refreshing();
    const Mask miss = queues_.miss[queue] & allowed, openers = queues_.opened[0] | queues_.opened[1];
    rise = std::min(rise, earliest(queues_.hit[queue] & allowed, readiness_.ready[queue], readiness_.timing().blocks));
    if (maintenance_.empty())
      rise = std::min(rise, earliest(miss & ~queues_.open, readiness_.ready[2], readiness_.timing().blocks));
    any = std::min(any, earliest(miss & queues_.open & ~openers, readiness_.ready[3], readiness_.timing().blocks));
    if (closes_idle_ && maintenance_.empty()) any = std::min(any, idle_ready());
  }
  rise = std::max(rise, soon);
  if (bus == Bus::both_edges) rise = rising(rise);
  return std::max(soon, std::min({rise, any, next_refresh_}));
}

/// Earliest tick of the next command of the first pending refresh, and whether this command is a precharge.
template <class Mask>
inline std::pair<Tick, bool> ChannelOf<Mask>::maintenance_ready() const {
  const int job = maintenance_.front();
  const Mask banks = per_bank_ ? bank_bit<Mask>(job) : scope_banks(job);
  const bool precharge = (queues_.open & banks) != 0;
  if (((queues_.opened[0] | queues_.opened[1] | activating()) & banks) != 0) return {never, precharge};
  if (per_bank_) return {readiness_.ready[precharge ? 3 : 4].at[static_cast<std::size_t>(job)], precharge};
  return {readiness_.all_bank(precharge ? Command::precharge_all : Command::refresh_all, job), precharge};
}

inline constexpr std::size_t most_waiting = 1 << 16;  ///< limit on pending refreshes

template <class Mask>
inline void ChannelOf<Mask>::refresh_due(Tick t) {
  if (t < next_refresh_) return;
  for (int scope = 0; scope < readiness_.timing().scopes; ++scope) {
    // Per-bank refreshes visit the banks of a scope in turn.
    const Mask banks = scope_banks(scope);
    maintenance_.push_back(per_bank_ ? first_bank(banks) + next_bank_ : scope);
  }
  if (++next_bank_ == bank_count(scope_banks(0))) next_bank_ = 0;
  next_refresh_ += refresh_interval_;
  worked(64);
  if (maintenance_.size() > most_waiting)
    throw UserError({"A DRAM part must refresh faster than refreshes complete.",
                     "refresh interval",
                     std::to_string(refresh_interval_) + " ticks",
                     "more",
                     {}});
  may_skip_ = !offers_.empty() && next_due() - base_ > next_refresh_;
}

/// Issues the next command of the first pending refresh if it is ready, and returns whether it did. A falling edge
/// allows precharges only; if a row command restricts the edge, only a PREpb to a bank that is not blocked.
template <class Mask>
inline bool ChannelOf<Mask>::serve_maintenance(Tick t, bool falling, bool paired) {
  const auto [ready, precharge] = maintenance_ready();
  if (ready > t || (falling && !precharge)) return false;
  const int job = maintenance_.front();
  if (!per_bank_) {
    if (paired && (paired_scope_banks_ & scope_banks(job)) != 0) return false;
    issue_all(precharge ? Command::precharge_all : Command::refresh_all, job, t);
    return true;
  }
  if (paired && (paired_blocked_ >> job & 1) != 0) return false;
  issue(precharge ? Command::precharge : Command::refresh_bank, job, t);
  if (precharge)
    queues_.precharge(job);
  else
    maintenance_.pop_front();
  if ((t & 1) != 0) pair(t + 1, job);
  return true;
}

/// Open banks without queued requests.
template <class Mask>
inline Mask ChannelOf<Mask>::idle_banks() const {
  return queues_.open & ~(queues_.opened[0] | queues_.opened[1] | queues_.hit[0] | queues_.hit[1]);
}

template <class Mask>
inline Tick ChannelOf<Mask>::idle_ready() const {
  Tick first = never;
  for (Mask rest = idle_banks(); rest != 0; rest &= rest - 1) {
    const auto bank = static_cast<std::size_t>(first_bank(rest));
    first = std::min(first, std::max(readiness_.ready[3].at[bank], idle_at_.at[bank]));
  }
  return first;
}

/// For page policies closed and timeout: precharges the first idle bank whose timeout has expired.
template <class Mask>
inline void ChannelOf<Mask>::close_idle(Tick t, Mask allowed) {
  for (Mask rest = idle_banks() & allowed; rest != 0; rest &= rest - 1) {
    const int bank = first_bank(rest);
    const auto b = static_cast<std::size_t>(bank);
    if (std::max(readiness_.ready[3].at[b], idle_at_.at[b]) > t) continue;
    issue(Command::precharge, bank, t);
    queues_.precharge(bank);
    if ((t & 1) != 0) pair(t + 1, bank);
    return;
  }
}

template <class Mask>
inline typename ChannelOf<Mask>::Pick ChannelOf<Mask>::pick_opened(Tick t) const {
  const Tick read =
      oldest_ready(queues_.opened[0], readiness_.ready[0], queues_.opened_key, t, readiness_.timing().blocks);
  const Tick write =
      oldest_ready(queues_.opened[1], readiness_.ready[1], queues_.opened_key, t, readiness_.timing().blocks);
  return read <= write ? Pick{read, Command::read, true} : Pick{write, Command::write, true};
}

template <class Mask>
inline typename ChannelOf<Mask>::Pick ChannelOf<Mask>::pick_hit(Tick t) const {
  const auto queue = static_cast<std::size_t>(drain_);
  const Mask hit = queues_.hit[queue] & ~refreshing();
  const Tick key = oldest_ready(hit, readiness_.ready[queue], queues_.hit_key[queue], t, readiness_.timing().blocks);
  return {key, drain_ ? Command::write : Command::read, false};
}

/// The oldest ready PREpb or (if `activates`) ACT of the selected queue among banks in `allowed`.
template <class Mask>
inline typename ChannelOf<Mask>::Pick ChannelOf<Mask>::pick_row(Tick t, Mask allowed, bool activates) const {
  allowed &= ~refreshing();
  activates &= maintenance_.empty();
  const auto queue = static_cast<std::size_t>(drain_);
  const Mask miss = queues_.miss[queue] & allowed, openers = queues_.opened[0] | queues_.opened[1];
  const PerBank<Mask>& keys = queues_.miss_key[queue];
  const Tick activate =
      activates ? oldest_ready(miss & ~queues_.open, readiness_.ready[2], keys, t, readiness_.timing().blocks) : never;
  const Tick precharge =
      oldest_ready(miss & queues_.open & ~openers, readiness_.ready[3], keys, t, readiness_.timing().blocks);
  return activate < precharge ? Pick{activate, Command::activate, false} : Pick{precharge, Command::precharge, false};
}

template <class Mask>
inline void ChannelOf<Mask>::issue_pick(const Pick& pick, Tick t) {
  const int bank = pick.key % mask_banks<Mask>;
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

/// Issues at most one command per tick. Priority: requests whose row was opened for them, refresh, selected queue.
template <class Mask>
inline void ChannelOf<Mask>::tick_shared(Tick t) {
  if (const Pick opened = pick_opened(t); opened.key != never) return issue_pick(opened, t);
  if (!maintenance_.empty() && serve_maintenance(t, false, false)) return;
  if (!queue_may_go()) return;
  update_drain();
  Pick pick = pick_hit(t);
  if (const Pick row = pick_row(t, ~Mask{0}, true); row.key < pick.key) pick = row;
  if (pick.key != never) return issue_pick(pick, t);
  if (closes_idle_ && maintenance_.empty()) close_idle(t, ~Mask{0});
}

/// Issues a column command, then a row command that is selected after the column command took effect.
template <class Mask>
template <bool both_edges>
void ChannelOf<Mask>::tick_row_and_column(Tick t) {
  const bool falling = both_edges && (t & 1) == 0;
  if (!falling) {
    Pick pick = pick_opened(t);
    if (pick.key == never && queue_may_go()) {
      update_drain();
      pick = pick_hit(t);
    }
    if (pick.key != never) issue_pick(pick, t);
  }
  row_slot<both_edges>(t);
}

template <class Mask>
template <bool both_edges>
void ChannelOf<Mask>::row_slot(Tick t) {
  const bool falling = both_edges && (t & 1) == 0;
  const bool paired = falling && t == paired_edge_;
  if (!maintenance_.empty() && serve_maintenance(t, falling, paired)) return;
  if (!queue_may_go()) return;
  update_drain();
  const Mask allowed = paired ? ~paired_blocked_ : ~Mask{0};
  const Pick pick = pick_row(t, allowed, !falling);
  if (pick.key != never) return issue_pick(pick, t);
  if (closes_idle_ && maintenance_.empty()) close_idle(t, allowed);
}

/// Issues ACT in two steps. If the data clock is stopped, issues a CAS command one tick before RD or WR.
template <class Mask>
inline void ChannelOf<Mask>::tick_two_step(Tick t) {
  if (held_) {
    held_ = false;
    return issue_pick(held_pick_, t);
  }
  if (pending_bank_ >= 0 && pending_deadline_ <= t) return issue_second_activate();
  Pick pick = pick_opened(t);
  if (pick.key == never && !maintenance_.empty() && serve_maintenance(t, false, false)) return;
  if (pick.key == never && queue_may_go()) {
    update_drain();
    pick = pick_hit(t);
    const Pick row = pick_row(t, ~activating(), pending_bank_ < 0);
    if (row.key < pick.key) pick = row;
  }
  if (pick.key == never) {
    if (pending_bank_ >= 0) return issue_second_activate();
    if (closes_idle_ && maintenance_.empty()) close_idle(t, ~Mask{0});
    return;
  }
  const bool column = pick.command == Command::read || pick.command == Command::write;
  if (!column || !has_sync_ || t < sync_until_) return issue_pick(pick, t);
  if (pending_bank_ >= 0 && pending_deadline_ <= t + 1) return issue_second_activate();
  held_ = true;
  held_pick_ = pick;
}

template <class Mask>
template <Bus bus>
void ChannelOf<Mask>::tick(Tick t) {
  for (const std::size_t column : {0, 1})
    if (readiness_.unsettled(column)) readiness_.settle(column);
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
