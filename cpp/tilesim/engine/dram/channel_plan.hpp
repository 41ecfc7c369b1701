// Plans the next command and its tick. A plan is valid until a candidate changes. Included only by channel_run.hpp.
//  A plan is the minimum of (tick, class, age) over all candidates: the first tick in which a candidate can issue, and
// the oldest candidate in that tick. Later requests are younger, so a minimum with the new candidate updates the plan.
#pragma once

#include "tilesim/engine/dram/channel_tick.hpp"

namespace tilesim::engine::dram {

/// Encodes a plan as a number: tick << 32 | (1 if the row is not opened for this request) << 30 | key.
inline std::uint64_t plan_of(Tick tick, bool waits, Tick key) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(tick)) << 32 | static_cast<std::uint64_t>(waits) << 30 |
         static_cast<std::uint32_t>(key);
}
inline Tick plan_tick(std::uint64_t plan) { return static_cast<Tick>(plan >> 32); }
template <class Mask>
inline int plan_bank(std::uint64_t plan) {
  return static_cast<int>(plan % mask_banks<Mask>);
}
inline bool plan_is_opener(std::uint64_t plan) { return (plan >> 30 & 1) == 0; }

#if defined(__AVX2__)
/// The best plan among banks in `mask`. Banks that are also in `first` can issue at `ready`, the others at `other`.
/// `rise`: banks in `first` issue on odd ticks only.
template <bool rise, int blocks, class Mask>
[[gnu::always_inline]] inline std::uint64_t best_in_lanes(Mask mask, Mask first, const PerBank<Mask>& ready,
                                                          const PerBank<Mask>& other, const PerBank<Mask>& key,
                                                          Tick soon) {
#if defined(__AVX512F__) && defined(__AVX512VL__)
  const __m512i begin = _mm512_set1_epi32(soon), none = _mm512_set1_epi32(never);
  __m512i at[blocks], best = none, oldest = none;
  for (int i = 0; i < blocks; ++i) {
    const auto lanes = static_cast<__mmask16>(mask >> (i * block_lanes));
    const auto ours = static_cast<__mmask16>(first >> (i * block_lanes));
    at[i] = _mm512_mask_load_epi32(_mm512_load_si512(other.at.data() + i * block_lanes), ours,
                                   ready.at.data() + i * block_lanes);
    at[i] = _mm512_max_epi32(begin, at[i]);
    if (rise) at[i] = _mm512_mask_or_epi32(at[i], ours, at[i], _mm512_set1_epi32(1));
    at[i] = _mm512_mask_mov_epi32(none, lanes, at[i]);
    best = _mm512_min_epi32(best, at[i]);
  }
  const Tick tick = _mm512_reduce_min_epi32(best);
  const __m512i same = _mm512_set1_epi32(tick);
  for (int i = 0; i < blocks; ++i)
    oldest = _mm512_mask_min_epi32(oldest, _mm512_cmpeq_epi32_mask(at[i], same), oldest,
                                   _mm512_load_si512(key.at.data() + i * block_lanes));
  return plan_of(tick, true, _mm512_reduce_min_epi32(oldest));
#elif defined(__AVX2__)
  const __m256i begin = _mm256_set1_epi32(soon), none = _mm256_set1_epi32(never);
  __m256i at[2 * blocks], best = none, oldest = none;
  for (int i = 0; i < 2 * blocks; ++i) {
    const __m256i ours = lanes_of(first, i);
    at[i] = _mm256_max_epi32(begin, _mm256_blendv_epi8(eight_of(other, i), eight_of(ready, i), ours));
    if (rise) at[i] = _mm256_or_si256(at[i], _mm256_srli_epi32(ours, 31));
    at[i] = _mm256_blendv_epi8(none, at[i], lanes_of(mask, i));
    best = _mm256_min_epi32(best, at[i]);
  }
  const Tick tick = lowest(best);
  const __m256i same = _mm256_set1_epi32(tick);
  for (int i = 0; i < 2 * blocks; ++i)
    oldest = _mm256_min_epi32(oldest, _mm256_blendv_epi8(none, eight_of(key, i), _mm256_cmpeq_epi32(at[i], same)));
  return plan_of(tick, true, lowest(oldest));
#endif
}
#endif

template <bool rise, class Mask>
[[gnu::always_inline]] inline std::uint64_t best_plan(Mask mask, Mask first, const PerBank<Mask>& ready,
                                                      const PerBank<Mask>& other, const PerBank<Mask>& key, Tick soon,
                                                      bool waits, [[maybe_unused]] int blocks) {
#if defined(__AVX2__)
  if (waits && bank_count(mask) > 3) {
    if (blocks == 1) return best_in_lanes<rise, 1>(mask, first, ready, other, key, soon);
    if (blocks == 2) return best_in_lanes<rise, 2>(mask, first, ready, other, key, soon);
    return best_in_lanes<rise, mask_banks<Mask> / block_lanes>(mask, first, ready, other, key, soon);
  }
#endif
  std::uint64_t best = static_cast<std::uint64_t>(never) << 32;
  for (; mask != 0; mask &= mask - 1) {
    const auto bank = static_cast<std::size_t>(first_bank(mask));
    const auto ours = static_cast<Tick>(first >> bank & 1);
    const Tick tick = std::max(soon, (ours != 0 ? ready : other).at[bank]) | (static_cast<Tick>(rise) & ours);
    best = std::min(best, plan_of(tick, waits, key.at[bank]));
  }
  return best;
}

template <class Mask>
template <Bus bus>
[[gnu::always_inline]] inline std::uint64_t ChannelOf<Mask>::plan_columns(Tick soon) const {
  constexpr bool rise = bus == Bus::both_edges;
  const auto queue = static_cast<std::size_t>(drain_);
  const int blocks = readiness_.timing().blocks;
  const PerBank<Mask>& ready = readiness_.ready[queue];
  std::uint64_t plan =
      best_plan<rise>(queues_.hit[queue], ~Mask{0}, ready, ready, queues_.hit_key[queue], soon, true, blocks);
  if ((queues_.opened[0] | queues_.opened[1]) == 0) return plan;
  for (std::size_t q : {Queues::reads, Queues::writes})
    plan = std::min(plan, best_plan<rise>(queues_.opened[q], ~Mask{0}, readiness_.ready[q], readiness_.ready[q],
                                          queues_.opened_key, soon, false, blocks));
  return plan;
}

/// Plans an ACT for closed banks and a PREpb for open banks.
template <class Mask>
template <Bus bus>
[[gnu::always_inline]] inline std::uint64_t ChannelOf<Mask>::plan_rows(Tick soon) const {
  const auto queue = static_cast<std::size_t>(drain_);
  const Mask banks = queues_.miss[queue] & ~(queues_.opened[0] | queues_.opened[1]);
  return best_plan<bus == Bus::both_edges>(banks, ~queues_.open, readiness_.ready[2], readiness_.ready[3],
                                           queues_.miss_key[queue], soon, true, readiness_.timing().blocks);
}

/// Updates the plans when a request accepted in cycle c has become its bank's candidate.
template <class Mask>
template <Bus bus>
void ChannelOf<Mask>::plan_newcomer(std::size_t queue, int bank, Tick c) {
  constexpr Tick rise = bus == Bus::both_edges;
  const auto b = static_cast<std::size_t>(bank);
  const Mask bit = bank_bit<Mask>(bank);
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

/// Updates the row plan after a column command. A row command of the same bank moves to a later tick, or becomes
/// possible if the bank's row had been opened for this column command. Candidates of other banks do not change.
template <class Mask>
[[gnu::always_inline]] inline void ChannelOf<Mask>::replan_rows(int bank, bool opener, Tick t) {
  const auto queue = static_cast<std::size_t>(drain_);
  const bool misses = (queues_.miss[queue] >> bank & 1) != 0;
  if (!misses && !columns_touch_rows_) return;
  const auto b = static_cast<std::size_t>(bank);
  if (columns_touch_rows_ || plan_bank<Mask>(rows_plan_) == bank)
    rows_plan_ = 0;
  else if (opener)
    rows_plan_ =
        std::min(rows_plan_, plan_of(std::max(t + 1, readiness_.ready[3].at[b]), true, queues_.miss_key[queue].at[b]));
}

template <class Mask>
[[gnu::always_inline]] inline void ChannelOf<Mask>::issue_planned_column(Tick t) {
  const int bank = plan_bank<Mask>(columns_plan_);
  const bool opener = plan_is_opener(columns_plan_);
  const std::size_t queue = opener ? queues_.opened[1] >> bank & 1 : static_cast<std::size_t>(drain_);
  issue_column(queue, bank, opener, t);
  columns_plan_ = 0;
  replan_rows(bank, opener, t);
}

template <class Mask>
template <Bus bus>
void ChannelOf<Mask>::issue_planned_row(Tick t) {
  const int bank = plan_bank<Mask>(rows_plan_);
  const auto queue = static_cast<std::size_t>(drain_);
  rows_plan_ = 0;
  if (queues_.open >> bank & 1) {
    issue_precharge(queue, bank, t);
    if (rows_touch_columns_ || plan_bank<Mask>(columns_plan_) == bank) columns_plan_ = 0;
    return;
  }
  issue_activate(queue, bank, t);
  if (rows_touch_columns_) {
    columns_plan_ = 0;
    return;
  }
  // The request that opened the row and other requests for this row become column candidates.
  constexpr Tick rise = bus == Bus::both_edges;
  const auto b = static_cast<std::size_t>(bank);
  const Tick at = std::max(t + 1, readiness_.ready[queue].at[b]) | rise;
  columns_plan_ = std::min(columns_plan_, plan_of(at, false, queues_.opened_key.at[b]));
}

/// Issues the planned commands of tick t. Call it only if no refresh is due and the write mode does not change.
template <class Mask>
template <Bus bus>
[[gnu::always_inline]] inline void ChannelOf<Mask>::tick_planned(Tick t) {
  if (bus == Bus::shared) {
    // Tick t may be too early: it was chosen for a change of the write mode that is no longer due.
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
