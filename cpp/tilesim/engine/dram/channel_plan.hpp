// The next command, found together with its tick: plans are kept as long as nothing can change them. Included by
// channel.cpp alone.
//
// A plan is the minimum over its candidates of (tick, class, age): the first tick at which any can go, and the oldest
// among those that can go then. What arrives later is younger, so it changes a plan only by the same minimum.
#pragma once

#include "tilesim/engine/dram/channel_tick.hpp"

namespace tilesim::engine::dram {

/// tick << 32 | (not an opened row) << 30 | key.
inline std::uint64_t plan_of(Tick tick, bool waits, Tick key) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(tick)) << 32 | static_cast<std::uint64_t>(waits) << 30 |
         static_cast<std::uint32_t>(key);
}
inline Tick plan_tick(std::uint64_t plan) { return static_cast<Tick>(plan >> 32); }
inline int plan_bank(std::uint64_t plan) { return static_cast<int>(plan % bank_limit); }
inline bool plan_is_opener(std::uint64_t plan) { return (plan >> 30 & 1) == 0; }

template <bool rise>
std::uint64_t best_plan(std::uint64_t mask, const PerBank& ready, const PerBank& key, Tick soon, bool waits,
                        int blocks) {
  constexpr std::uint64_t nothing = static_cast<std::uint64_t>(never) << 32;
#if defined(__AVX512F__) && defined(__AVX512VL__)
  if (std::popcount(mask) > 3) {
    const __m512i first = _mm512_set1_epi32(soon);
    __m512i at[4], best = _mm512_set1_epi32(never);
    for (int i = 0; i < blocks; ++i) {
      at[i] = _mm512_max_epi32(first, _mm512_load_si512(ready.at.data() + i * block_lanes));
      if (rise) at[i] = _mm512_or_si512(at[i], _mm512_set1_epi32(1));
      const auto lanes = static_cast<__mmask16>(mask >> (i * block_lanes));
      at[i] = _mm512_mask_mov_epi32(_mm512_set1_epi32(never), lanes, at[i]);
      best = _mm512_min_epi32(best, at[i]);
    }
    const Tick tick = _mm512_reduce_min_epi32(best);
    const __m512i same = _mm512_set1_epi32(tick);
    __m512i oldest = _mm512_set1_epi32(never);
    for (int i = 0; i < blocks; ++i)
      oldest = _mm512_mask_min_epi32(oldest, _mm512_cmpeq_epi32_mask(at[i], same), oldest,
                                     _mm512_load_si512(key.at.data() + i * block_lanes));
    return plan_of(tick, waits, _mm512_reduce_min_epi32(oldest));
  }
#else
  (void)blocks;
#endif
  std::uint64_t best = nothing;
  for (; mask != 0; mask &= mask - 1) {
    const auto bank = static_cast<std::size_t>(std::countr_zero(mask));
    const Tick tick = std::max(soon, ready.at[bank]) | static_cast<Tick>(rise);
    best = std::min(best, plan_of(tick, waits, key.at[bank]));
  }
  return best;
}

template <Channel::Bus bus>
std::uint64_t Channel::plan_columns(Tick soon) const {
  constexpr bool rise = bus == Bus::both_edges;
  const auto queue = static_cast<std::size_t>(drain_);
  std::uint64_t plan = best_plan<rise>(queues_.hit[queue], readiness_.ready[queue], queues_.hit_key[queue], soon, true,
                                       readiness_.timing().blocks);
  for (std::size_t q : {Queues::reads, Queues::writes})
    if (queues_.opened[q] != 0)
      plan = std::min(plan, best_plan<rise>(queues_.opened[q], readiness_.ready[q], queues_.opened_key, soon, false,
                                            readiness_.timing().blocks));
  return plan;
}

template <Channel::Bus bus>
std::uint64_t Channel::plan_rows(Tick soon) const {
  const auto queue = static_cast<std::size_t>(drain_);
  const std::uint64_t miss = queues_.miss[queue], openers = queues_.opened[0] | queues_.opened[1];
  const PerBank& keys = queues_.miss_key[queue];
  return std::min(best_plan<bus == Bus::both_edges>(miss & ~queues_.open, readiness_.ready[2], keys, soon, true,
                                                    readiness_.timing().blocks),
                  best_plan<false>(miss & queues_.open & ~openers, readiness_.ready[3], keys, soon, true,
                                   readiness_.timing().blocks));
}

/// A request was accepted at cycle c as its bank's candidate.
template <Channel::Bus bus>
void Channel::plan_newcomer(std::size_t queue, int bank, Tick c) {
  constexpr Tick rise = bus == Bus::both_edges;
  const auto b = static_cast<std::size_t>(bank);
  const std::uint64_t bit = 1ULL << bank;
  const auto at = [&](std::size_t command, Tick edge) {
    return std::max(c + 1, readiness_.ready[command].at[b]) | edge;
  };
  if (queues_.hit[queue] & bit)
    columns_plan_ = std::min(columns_plan_, plan_of(at(queue, rise), true, queues_.hit_key[queue].at[b]));
  if (!(queues_.miss[queue] & bit)) return;
  const Tick key = queues_.miss_key[queue].at[b];
  if (!(queues_.open & bit))
    rows_plan_ = std::min(rows_plan_, plan_of(at(2, rise), true, key));
  else if (!((queues_.opened[0] | queues_.opened[1]) & bit))
    rows_plan_ = std::min(rows_plan_, plan_of(at(3, 0), true, key));
}

[[gnu::always_inline]] inline void Channel::issue_planned_column(Tick t) {
  const int bank = plan_bank(columns_plan_);
  const bool opener = plan_is_opener(columns_plan_);
  const std::size_t queue = opener ? queues_.opened[1] >> bank & 1 : static_cast<std::size_t>(drain_);
  issue_column(queue, bank, opener, t);
  columns_plan_ = 0;
  if (columns_touch_rows_ || (queues_.miss[static_cast<std::size_t>(drain_)] >> bank & 1) != 0) rows_plan_ = 0;
}

template <Channel::Bus bus>
void Channel::issue_planned_row(Tick t) {
  const int bank = plan_bank(rows_plan_);
  const auto queue = static_cast<std::size_t>(drain_);
  rows_plan_ = 0;
  if (queues_.open >> bank & 1) {
    issue_precharge(queue, bank, t);
    if (rows_touch_columns_ || plan_bank(columns_plan_) == bank) columns_plan_ = 0;
    return;
  }
  issue_activate(queue, bank, t);
  if (rows_touch_columns_) {
    columns_plan_ = 0;
    return;
  }
  // The opener, and others of its row, join the column candidates.
  constexpr Tick rise = bus == Bus::both_edges;
  const auto b = static_cast<std::size_t>(bank);
  const Tick at = std::max(t + 1, readiness_.ready[queue].at[b]) | rise;
  columns_plan_ = std::min(columns_plan_, plan_of(at, false, queues_.opened_key.at[b]));
}

/// The planned commands of tick t, when neither refresh nor a change of the write mode interferes.
template <Channel::Bus bus>
[[gnu::always_inline]] inline void Channel::tick_planned(Tick t) {
  if (bus == Bus::shared) {
    // A tick may come early, when a change of the write mode that was due is no longer.
    if (plan_tick(std::min(columns_plan_, rows_plan_)) > t) return;
    if (columns_plan_ < rows_plan_)
      issue_planned_column(t);
    else
      issue_planned_row<bus>(t);
    return;
  }
  if (bus == Bus::both_edges && t == paired_edge_) {
    tick<bus>(t);
    columns_plan_ = rows_plan_ = 0;
    return;
  }
  bool again = false;
  if (plan_tick(columns_plan_) == t) {
    again = plan_tick(rows_plan_) == t;
    issue_planned_column(t);
    if (drain_flips() || (again && rows_plan_ == 0)) {
      row_slot<bus == Bus::both_edges>(t);
      columns_plan_ = rows_plan_ = 0;
      return;
    }
  }
  if (plan_tick(rows_plan_) == t) issue_planned_row<bus>(t);
}

}  // namespace tilesim::engine::dram
