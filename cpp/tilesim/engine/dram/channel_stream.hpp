// Column commands to a few open rows, one after the other, as long as nothing else can go: what streams consist of.
// Included by channel.cpp alone.
//
// Readiness is kept by maximum, so of several commands to one bank the last decides: within a stream only the delays
// between its own banks are kept up, the rest is raised once at its end. Row commands can only become ready later than
// their plan says; a stream ends before the first tick at which one might go.
#pragma once

#include "tilesim/engine/dram/channel_plan.hpp"

namespace tilesim::engine::dram {

/// Whether the next command belongs to a stream.
inline bool Channel::streams() const {
  const auto queue = static_cast<std::size_t>(drain_);
  const std::uint64_t banks = queues_.hit[queue] | queues_.opened[queue];
  return queues_.hit[queue] != 0 && queues_.opened[1 - queue] == 0 && std::popcount(banks) <= stream_banks &&
         plan_tick(columns_plan_) < plan_tick(rows_plan_) && can_stream_[queue] && !drain_flips();
}

/// Requests due before tick `next`. False: one came that a stream cannot take, or that may change what is next.
[[gnu::always_inline]] inline bool Channel::accept_in_stream(std::size_t queue, Tick next, Tick& limit) {
  while (!offers_.empty()) {
    const Request& request = offers_.front();
    const std::int64_t at = std::max({base_ + now_, next_offer_, request.not_before});
    if (at - base_ >= std::min(next, limit)) return true;
    if (static_cast<std::size_t>(request.write) != queue) return false;
    const auto c = static_cast<Tick>(at - base_);
    const int bank = request.bank;
    const bool joins = queues_.hits(bank, request.row);
    if (!accept(request, c)) return true;
    offers_.pop_front();
    next_offer_ = at + 1;
    if (!newcomer_leads_) continue;
    if (joins) return false;
    const auto b = static_cast<std::size_t>(bank);
    if ((queues_.open >> bank & 1) == 0)
      limit = std::min(limit, std::max(c + 1, readiness_.ready[2].at[b]));
    else if ((queues_.opened[queue] >> bank & 1) == 0)
      limit = std::min(limit, std::max(c + 1, readiness_.ready[3].at[b]));
  }
  return !ends_when_accepted_;
}

/// Returns whether anything was done.
template <Channel::Bus bus>
bool Channel::stream(Tick limit) {
  constexpr Tick rise = bus == Bus::both_edges;
  struct Member {
    std::size_t bank = 0;
    Tick ready = 0, last = long_ago;
  };
  std::array<Member, stream_banks> members;
  const auto queue = static_cast<std::size_t>(drain_);
  std::size_t count = 0;
  for (std::uint64_t rest = queues_.hit[queue] | queues_.opened[queue]; rest != 0; rest &= rest - 1) {
    const auto bank = static_cast<std::size_t>(std::countr_zero(rest));
    members[count++] = {bank, readiness_.ready[queue].at[bank], long_ago};
  }
  // A hit taken from a queue this short changes the write mode.
  const std::int64_t shortest = queue == Queues::reads ? 1 : queues_.count[0] > 0 ? drain_low_ + 1 : 0;
  const auto& gaps = readiness_.timing().column_gap[queue];
  const Tick begin = now_;
  const std::int64_t accepted = last_accept_;
  Tick first = soon();
  for (bool goes_on = true; goes_on;) {
    std::uint64_t plan = static_cast<std::uint64_t>(never) << 32;
    std::size_t chosen = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const Member& m = members[i];
      const bool opener = (queues_.opened[queue] >> m.bank & 1) != 0;
      const Tick key = (opener ? queues_.opened_key : queues_.hit_key[queue]).at[m.bank];
      const std::uint64_t one = plan_of(std::max(first, m.ready) | rise, !opener, key);
      if (one < plan) {
        plan = one;
        chosen = i;
      }
    }
    const Tick t = plan_tick(plan);
    if (!accept_in_stream(queue, t, limit) || t >= limit) break;
    const auto bank = members[chosen].bank;
    const bool opener = plan_is_opener(plan);
    if (opener) {
      // Other rows of its bank may now be next.
      goes_on = ((queues_.miss[0] | queues_.miss[1]) >> bank & 1) == 0;
    } else if (queues_.count[queue] <= shortest) {
      break;
    }
    take_column(queue, static_cast<int>(bank), opener, t);
    goes_on &= (queues_.hit[queue] >> bank & 1) != 0;
    members[chosen].last = t;
    const std::int32_t* gap = gaps[bank].data();
    for (std::size_t i = 0; i < count; ++i) members[i].ready = std::max(members[i].ready, t + gap[members[i].bank]);
    now_ = t;
    first = t + 1;
  }
  for (std::size_t i = 0; i < count; ++i)
    if (members[i].last != long_ago)
      readiness_.issue(queue == Queues::reads ? Command::read : Command::write, static_cast<int>(members[i].bank),
                       members[i].last);
  return now_ != begin || last_accept_ != accepted;
}

}  // namespace tilesim::engine::dram
