// Searches over banks: all sixteen of a block at a time where the processor can, else bit by bit.
#pragma once
// Functions are static: files compiled for different processors must not share them.

#include <algorithm>
#include <bit>
#include <cstdint>

#include "tilesim/engine/dram/timing.hpp"

#if defined(__AVX512F__) && defined(__AVX512VL__)
#include <immintrin.h>
#endif

namespace tilesim::engine::dram {

#if defined(__AVX512F__) && defined(__AVX512VL__)

/// ready = max(ready, t + delays).
static inline void raise(PerBank& ready, const Block* delays, Tick t, int blocks) {
  const __m512i now = _mm512_set1_epi32(t);
  for (int i = 0; i < blocks; ++i) {
    Tick* at = ready.at.data() + i * block_lanes;
    const __m512i raised = _mm512_add_epi32(now, _mm512_load_si512(delays + i));
    _mm512_store_si512(at, _mm512_max_epi32(_mm512_load_si512(at), raised));
  }
}

/// Smallest `ready` of the banks in `mask`; `never` if there are none.
static inline Tick earliest(std::uint64_t mask, const PerBank& ready, int blocks) {
  if (mask == 0) return never;
  __m512i best = _mm512_set1_epi32(never);
  for (int i = 0; i < blocks; ++i) {
    const auto lanes = static_cast<__mmask16>(mask >> (i * block_lanes));
    best = _mm512_mask_min_epi32(best, lanes, best, _mm512_load_si512(ready.at.data() + i * block_lanes));
  }
  return _mm512_reduce_min_epi32(best);
}

/// Smallest key of the banks in `mask` that are ready at `t`; `never` if there are none.
static inline Tick oldest_ready(std::uint64_t mask, const PerBank& ready, const PerBank& key, Tick t, int blocks) {
  if (mask == 0) return never;
  const __m512i now = _mm512_set1_epi32(t);
  __m512i best = _mm512_set1_epi32(never);
  for (int i = 0; i < blocks; ++i) {
    const auto lanes = static_cast<__mmask16>(mask >> (i * block_lanes));
    const __mmask16 can =
        _mm512_mask_cmple_epi32_mask(lanes, _mm512_load_si512(ready.at.data() + i * block_lanes), now);
    best = _mm512_mask_min_epi32(best, can, best, _mm512_load_si512(key.at.data() + i * block_lanes));
  }
  return _mm512_reduce_min_epi32(best);
}

#else

using EightTicks [[gnu::vector_size(32)]] = Tick;

static inline void raise(PerBank& ready, const Block* delays, Tick t, int blocks) {
  // Blocks lie one after the other, aligned to 64 bytes; may_alias lets vectors look at arrays of ticks.
  using Lanes [[gnu::may_alias]] = EightTicks;
  auto* at = reinterpret_cast<Lanes*>(ready.at.data());
  const auto* row = reinterpret_cast<const Lanes*>(delays);
  for (int i = 0; i < 2 * blocks; ++i) {
    const EightTicks raised = row[i] + t;
    at[i] = at[i] > raised ? at[i] : raised;
  }
}

static inline Tick earliest(std::uint64_t mask, const PerBank& ready, int) {
  Tick best = never;
  for (; mask != 0; mask &= mask - 1) best = std::min(best, ready.at[static_cast<std::size_t>(std::countr_zero(mask))]);
  return best;
}

static inline Tick oldest_ready(std::uint64_t mask, const PerBank& ready, const PerBank& key, Tick t, int) {
  Tick best = never;
  for (; mask != 0; mask &= mask - 1) {
    const auto bank = static_cast<std::size_t>(std::countr_zero(mask));
    best = std::min(best, ready.at[bank] <= t ? key.at[bank] : never);
  }
  return best;
}

#endif

}  // namespace tilesim::engine::dram
