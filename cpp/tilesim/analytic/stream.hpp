// Closed-form time of operations that stream over memory: elementwise operations, softmax and normalization, copies.
//
// If repeated calls fit the cache, their bytes come from the cache, otherwise from memory; arithmetic runs on ordinary
// lanes. Softmax and normalization work by rows: each row costs a block of threads a fixed time, divided by the number
// of blocks that run at the same time.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "tilesim/analytic/constants.hpp"

namespace tilesim::analytic {

/// X(name, default, lowest, highest, unit)
#define TILESIM_STREAM_CONSTANTS(X)                                                  \
  X(launch, 5e-6, 1e-7, 1e-3, "s per kernel")                                        \
  X(memory_share, 0.8, 0.05, 0.97, "share of the memory's peak rate")                \
  X(cache_share, 0.6, 0.01, 8.0, "share of the shared cache's rate")                 \
  X(cache_fill, 0.8, 0.05, 1.5, "share of the cache that repeated calls can use")    \
  X(cache_edge, 0.3, 0.01, 3.0, "relative width of the step from hit to miss")       \
  X(lanes_share, 0.5, 0.02, 1.0, "share of the peak rate of ordinary lanes")         \
  X(row, 2e-7, 1e-9, 1e-3, "s per row and unit")                                     \
  X(narrow, 32.0, 0.1, 1000.0, "elements that every row is longer by: idle threads") \
  X(overlap, 2.0, 1.0, 12.0, "exponent: 1 terms add, large: the longest hides the others")

struct StreamConstants { TILESIM_CONSTANT_FIELDS(TILESIM_STREAM_CONSTANTS) };
std::span<const ConstantInfo<StreamConstants>> stream_constants();

enum class StreamTerm : std::uint8_t { launch, memory, compute, rows, total };
inline constexpr std::size_t stream_term_count = 5;
using StreamTerms = std::array<double, stream_term_count>;  ///< seconds
std::span<const std::string_view> stream_term_names();

/// Data that a call streams, from the graph's shapes. The cache contains none of it.
struct StreamWork {
  double bytes = 0, operations = 0;
  double rows = 0;     ///< 0: the operation is not row-wise
  bool launch = true;  ///< whether the call is a separate kernel
};

/// A call given by its extents.
struct StreamCall {
  double rows, width;     ///< width: elements per row
  double tensors, bytes;  ///< tensors read and written; bytes per element of each
  double operations;      ///< per element
  bool by_row = false;    ///< softmax, normalization: each row is processed independently
};

struct StreamModel {
  double units = 1, memory_bytes_per_second = 1e11;
  double shared_bytes = 0, shared_bytes_per_second = 1e12;  ///< size and rate of the cache that all units share
  double lanes_per_second = 1e12;                           ///< rate of ordinary lanes of all units together
  StreamConstants constants;

  /// Time of repeated calls: tensors that fit the cache are read from it.
  StreamTerms repeated(const StreamCall& call) const;
  StreamTerms once(const StreamWork& work) const;
};

}  // namespace tilesim::analytic
