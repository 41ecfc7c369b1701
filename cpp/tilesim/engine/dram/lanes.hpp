// Searches over banks. They use vector instructions on sixteen or eight banks at a time if available.
#pragma once
// The functions are static because files compiled for different processors must not share them.

#include <algorithm>
#include <bit>
#include <cstdint>

#include "tilesim/engine/dram/timing.hpp"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace tilesim::engine::dram {

#if defined(__AVX512F__) && defined(__AVX512VL__)

/// Replaces each `ready` by max(ready, t + delay).
template <class Mask>
static inline void raise(PerBank<Mask>& ready, const Block* delays, Tick t, int blocks) {
  const __m512i now = _mm512_set1_epi32(t);
  for (int i = 0; i < blocks; ++i) {
    Tick* at = ready.at.data() + i * block_lanes;
    const __m512i raised = _mm512_add_epi32(now, _mm512_load_si512(delays + i));
    _mm512_store_si512(at, _mm512_max_epi32(_mm512_load_si512(at), raised));
  }
}

/// Smallest `ready` of the banks in `mask`; `never` if `mask` is empty.
template <class Mask>
static inline Tick earliest(Mask mask, const PerBank<Mask>& ready, int blocks) {
  if (mask == 0) return never;
  __m512i best = _mm512_set1_epi32(never);
  for (int i = 0; i < blocks; ++i) {
    const auto lanes = static_cast<__mmask16>(mask >> (i * block_lanes));
    best = _mm512_mask_min_epi32(best, lanes, best, _mm512_load_si512(ready.at.data() + i * block_lanes));
  }
  return _mm512_reduce_min_epi32(best);
}

/// Smallest key of the banks in `mask` that are ready at `t`; `never` if no bank is.
template <class Mask>
static inline Tick oldest_ready(Mask mask, const PerBank<Mask>& ready, const PerBank<Mask>& key, Tick t, int blocks) {
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

#elif defined(__AVX2__)

static inline Tick lowest(__m256i ticks) {
  __m128i low = _mm_min_epi32(_mm256_castsi256_si128(ticks), _mm256_extracti128_si256(ticks, 1));
  low = _mm_min_epi32(low, _mm_shuffle_epi32(low, 0x4e));
  return _mm_cvtsi128_si32(_mm_min_epi32(low, _mm_shuffle_epi32(low, 0xb1)));
}

/// A vector of eight lanes; a lane has all bits set if its bank is in the mask.
template <class Mask>
static inline __m256i lanes_of(Mask mask, int eight) {
  const __m256i bits = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  const __m256i all = _mm256_set1_epi32(static_cast<int>(mask >> (eight * 8)));
  return _mm256_cmpeq_epi32(_mm256_and_si256(all, bits), bits);
}

template <class Mask>
static inline __m256i eight_of(const PerBank<Mask>& ticks, int eight) {
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(ticks.at.data() + eight * 8));
}

template <class Mask>
static inline void raise(PerBank<Mask>& ready, const Block* delays, Tick t, int blocks) {
  const __m256i now = _mm256_set1_epi32(t);
  auto* at = reinterpret_cast<__m256i*>(ready.at.data());
  const auto* row = reinterpret_cast<const __m256i*>(delays);
  for (int i = 0; i < 2 * blocks; ++i)
    _mm256_store_si256(at + i,
                       _mm256_max_epi32(_mm256_load_si256(at + i), _mm256_add_epi32(now, _mm256_load_si256(row + i))));
}

template <class Mask>
static inline Tick earliest(Mask mask, const PerBank<Mask>& ready, int blocks) {
  if (mask == 0) return never;
  __m256i best = _mm256_set1_epi32(never);
  for (int i = 0; i < 2 * blocks; ++i)
    best = _mm256_min_epi32(best, _mm256_blendv_epi8(_mm256_set1_epi32(never), eight_of(ready, i), lanes_of(mask, i)));
  return lowest(best);
}

template <class Mask>
static inline Tick oldest_ready(Mask mask, const PerBank<Mask>& ready, const PerBank<Mask>& key, Tick t, int blocks) {
  if (mask == 0) return never;
  const __m256i none = _mm256_set1_epi32(never), now = _mm256_set1_epi32(t);
  __m256i best = none;
  for (int i = 0; i < 2 * blocks; ++i) {
    const __m256i can = _mm256_andnot_si256(_mm256_cmpgt_epi32(eight_of(ready, i), now), lanes_of(mask, i));
    best = _mm256_min_epi32(best, _mm256_blendv_epi8(none, eight_of(key, i), can));
  }
  return lowest(best);
}

#else

using EightTicks [[gnu::vector_size(32)]] = Tick;

template <class Mask>
static inline void raise(PerBank<Mask>& ready, const Block* delays, Tick t, int blocks) {
  // Blocks are contiguous and aligned to 64 bytes. may_alias permits vector access to arrays of ticks.
  using Lanes [[gnu::may_alias]] = EightTicks;
  auto* at = reinterpret_cast<Lanes*>(ready.at.data());
  const auto* row = reinterpret_cast<const Lanes*>(delays);
  for (int i = 0; i < 2 * blocks; ++i) {
    const EightTicks raised = row[i] + t;
    at[i] = at[i] > raised ? at[i] : raised;
  }
}

template <class Mask>
static inline Tick earliest(Mask mask, const PerBank<Mask>& ready, int) {
  Tick best = never;
  for (; mask != 0; mask &= mask - 1) best = std::min(best, ready.at[static_cast<std::size_t>(first_bank(mask))]);
  return best;
}

template <class Mask>
static inline Tick oldest_ready(Mask mask, const PerBank<Mask>& ready, const PerBank<Mask>& key, Tick t, int) {
  Tick best = never;
  for (; mask != 0; mask &= mask - 1) {
    const auto bank = static_cast<std::size_t>(first_bank(mask));
    best = std::min(best, ready.at[bank] <= t ? key.at[bank] : never);
  }
  return best;
}

#endif

}  // namespace tilesim::engine::dram
