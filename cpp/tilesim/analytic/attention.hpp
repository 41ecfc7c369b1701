// Closed-form time of attention calls.
//
// Prefill: each block of 128 queries of a head walks over the keys that its queries see, in blocks of 128 keys. A block
// of keys costs two products at a share of the peak rate, or the exponentials if those take longer; every query tile
// adds a fixed time. Decode: the queries that share a key head form one tile, and the keys are split until all units
// are busy. Both kernels move queries, keys, values and outputs at the memory's rate, and add a launch and a time per
// sequence. See docs/explanation/closed_form.md.
// docs/explanation/closed_form.md.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "tilesim/analytic/constants.hpp"

namespace tilesim::analytic {

/// X(name, default, lowest, highest, unit)
#define TILESIM_ATTENTION_CONSTANTS(X)                                                      \
  X(launch, 1e-5, 1e-7, 1e-3, "s per call, including the small kernels around it")          \
  X(efficiency, 0.7, 0.01, 1.0, "share of the peak rate in the products")                   \
  X(exponentials, 32.0, 1.0, 1000.0, "query-key pairs per cycle and unit at most")          \
  X(tile, 2e-6, 1e-8, 1e-4, "s per query tile on its unit")                                 \
  X(block, 2e-7, 1e-9, 1e-5, "s per block of keys at least")                                \
  X(sequence, 1e-8, 1e-11, 1e-5, "s per sequence of the batch")                             \
  X(memory_share, 0.8, 0.05, 0.97, "share of the memory's peak rate")                       \
  X(cache_share, 0.8, 0.01, 8.0, "share of the shared cache's rate")                        \
  X(unit_bytes_per_clock, 50.0, 0.5, 1000.0, "bytes one unit loads per cycle")              \
  X(row, 1e-7, 1e-11, 1e-4, "s per token and key head that the cache write costs one unit") \
  X(split, 2e-6, 1e-8, 1e-4, "s for joining the splits of the keys")                        \
  X(overlap, 3.0, 1.0, 12.0, "exponent: 1 terms add, large: the longest hides the others")  \
  X(wave_smoothing, 0.5, 0.0, 1.0, "0: whole waves; 1: the last wave costs its share only")

struct AttentionConstants { TILESIM_CONSTANT_FIELDS(TILESIM_ATTENTION_CONSTANTS) };
std::span<const ConstantInfo<AttentionConstants>> attention_constants();

/// An attention call. Queries are the last positions of each sequence. `window`: most keys that a query sees; 0: all.
struct AttentionCase {
  double batch, queries, keys, heads, key_heads, depth, window;
  bool causal = true;
};

enum class AttentionTerm : std::uint8_t { launch, compute, load, memory, split, total };
inline constexpr std::size_t attention_term_count = 6;
using AttentionTerms = std::array<double, attention_term_count>;  ///< seconds
std::span<const std::string_view> attention_term_names();

struct AttentionModel {
  double units = 1, clock = 1e9, memory_bytes_per_second = 1e11;
  double flops_per_second = 1e12;  ///< rate of the arithmetic on all units together
  double cache_bytes = 2;          ///< bytes per element of keys and values
  AttentionConstants constants;
  /// Whether blocks of queries and keys, and head depths, are padded to a library's sizes; false: to the operands'.
  bool padded = true;

  AttentionTerms predict(const AttentionCase& call) const;
};

/// A library's kernels. A call with one query uses the faster of the decode and the prefill kernel.
struct AttentionCall {
  AttentionModel prefill, decode;

  AttentionTerms predict(const AttentionCase& call) const;
};

}  // namespace tilesim::analytic
