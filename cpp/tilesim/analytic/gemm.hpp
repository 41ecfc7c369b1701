// Closed-form time of a matrix product on a device made of many equal units (streaming multiprocessors, cores, arrays).
//
// A library would choose a tile shape and a split of k from a menu; so does the model: it takes the fastest of its
// candidates. Per candidate, in seconds:
//     compute  waves of tiles over units, each k-step and the epilogue at the tile's share of the peak rate
//     load     operands of every tile from the shared cache: per unit, and all units together
//     memory   bytes that the warm cache does not hold at the memory's rate, the others at the cache's
//     total    launch + waves of tiles + (compute^p + load^p + memory^p)^(1/p) + reduction of the split
// and a cast of the activations before it where the scheme has one. See docs/explanation/closed_form.md for each term.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tilesim/analytic/constants.hpp"

namespace tilesim::analytic {

/// The specification of a device for one scheme.
struct GemmHardware {
  double units = 1;
  double clock = 1e9;              ///< Hz
  double flops_per_second = 1e12;  ///< of the scheme's arithmetic, all units
  double memory_bytes_per_second = 1e11;
  double cache_bytes = 0;               ///< last level shared by all units
  double cache_bytes_per_clock = 1024;  ///< of that level, all units
  double near_bytes = 0;              ///< of a nearer level that holds whole products (second cache of a CPU); 0: none
  double near_bytes_per_clock = 0;    ///< rate of that level, all units
  double block_bytes = 0;             ///< scratchpad in which software keeps a block of the result; 0: a cache
  double lane_flops_per_clock = 256;  ///< of one unit's ordinary lanes, at most the scheme's rate
};

/// Bytes per element, and the benchmark's use of weights.
struct GemmScheme {
  double activation_bytes = 2;  ///< as read by the product
  double weight_bytes = 2;
  double output_bytes = 2;
  double cast_bytes = 0;    ///< read and written per activation by a cast kernel before the product; 0: none
  double weight_sets = 1;   ///< distinct weights that repeated calls cycle through; negative: the number that fills the
                            ///< cache, at most its magnitude
  bool widens = false;      ///< the product's own loop widens or packs weights
  bool warm = true;         ///< false: no operand is in the cache
  double packs_beyond = 0;  ///< multiply-adds up to which nothing is widened or packed
  double calls = 1000;      ///< number of consecutive products before the time is taken
  double host = 0;          ///< host seconds per call in addition to the device, if no graph is replayed
  bool rules = false;       ///< the library chooses by heuristics instead of timing every kernel (see GemmKernel)
};

/// The constants of a family and scheme. X(name, default, lowest, highest, unit)
#define TILESIM_GEMM_CONSTANTS(X)                                                                    \
  X(launch, 2e-6, 0.0, 1e-3, "s per kernel")                                                         \
  X(efficiency, 0.85, 0.01, 1.0, "share of the peak rate at a large tile")                           \
  X(epilogue_steps, 100.0, 0.0, 4000.0, "k elements that prologue and epilogue of a tile are worth") \
  X(half_tile, 5.0, 0.0, 400.0, "m n / (m + n) of the tile that reaches half of the rate")           \
  X(step, 5e-8, 1e-10, 1e-5, "s per k-step at least")                                                \
  X(tile, 5e-7, 1e-9, 1e-4, "s per further wave of tiles")                                           \
  X(unit_bytes_per_clock, 50.0, 0.5, 20000.0, "bytes one unit loads per cycle")                      \
  X(reload_share, 0.8, 0.01, 8.0, "share of the cache's rate when tiles load operands again")        \
  X(cache_share, 0.8, 0.01, 8.0, "share of the cache's rate for bytes that stay in it")              \
  X(memory_share, 0.85, 0.05, 0.97, "share of the memory's peak rate")                               \
  X(cache_fill, 0.8, 0.05, 1.1, "share of the cache that a repeated walk can use")                   \
  X(cache_edge, 0.06, 0.005, 1.0, "relative width of the step from hit to miss")                     \
  X(split, 1.5e-6, 1e-8, 1e-3, "s per reduction of a split k")                                       \
  X(deep, 5500.0, 64.0, 1e6, "k up to which rules do not split where tiles fill all units already")  \
  X(overlap, 3.0, 1.0, 12.0, "exponent: 1 terms add, large: the longest hides the others")           \
  X(wave_smoothing, 0.2, 0.0, 1.0, "0: whole waves; 1: the last wave costs its share only")          \
  X(droop, 0.0, -0.999, 1e3, "arithmetic time at the power limit over that at the peak rate")        \
  X(convert, 64.0, 0.1, 1e5, "weights one unit widens or packs per cycle, where the loop does so")   \
  X(far, 1.0, 1.0, 50.0, "factor on widening or packing for weights from memory")                    \
  X(alone, 1.0, 0.1, 1.0, "share of a unit's rate that a lone tile reaches")                         \
  X(vector_launch, 2e-6, 0.0, 1e-3, "s per matrix-vector kernel")                                    \
  X(vector_rate, 3e9, 1e6, 1e12, "k elements per second and block of a matrix-vector kernel")        \
  X(cast, 3e-6, 1e-8, 1e-3, "s of the kernels of a cast")                                            \
  X(cast_row, 1e-7, 1e-10, 1e-4, "s per row and unit of a cast")                                     \
  X(cast_share, 0.7, 0.02, 0.97, "share of the memory's peak rate in a cast")

struct GemmConstants { TILESIM_CONSTANT_FIELDS(TILESIM_GEMM_CONSTANTS) };

using GemmConstantInfo = ConstantInfo<GemmConstants>;
std::span<const GemmConstantInfo> gemm_constants();

/// One entry of the library's menu; it serves products with m and n in the stated ranges, smaller ones padded to the
/// least (matrix-vector: `most_m` of one of the two in each pass, the other at most `most_n`). By rules of thumb,
/// smaller tiles and splits are for filling idle units: once a kernel has more tiles than there are units, smaller ones
/// are not considered, and k is split only beyond `deep`.
struct GemmKernel {
  double tile_m = 128, tile_n = 128,
         tile_k = 64;      ///< tile_m 0: matrix-vector, a block walks k for tile_n of the longer side
  double most_splits = 1;  ///< powers of two up to it; below 8: every number
  double least_m = 0, most_m = 1e18;
  double least_n = 0, most_n = 1e18;
};

enum class GemmTerm : std::uint8_t {
  total,
  launch,
  compute,
  load,
  memory,
  split,
  cast,
  tile_m,
  tile_n,
  splits,
  hits,
  latency,
  occupancy
};
inline constexpr int gemm_term_count = 13;
std::span<const std::string_view> gemm_term_names();
/// Seconds of each term (tile sizes and splits: numbers, hits: share of bytes found in the cache; latency: the k-steps
/// at their least time, a part of compute; occupancy: tiles over the places of their rounds on the units, a share).
using GemmTerms = std::array<double, gemm_term_count>;

struct GemmModel {
  GemmHardware hardware;
  GemmScheme scheme;
  GemmConstants constants;
  std::vector<GemmKernel> kernels;

  /// Throws UserError for a model without kernels or with values out of range.
  void check() const;
  /// Times of `batch` products of [m, k] by [k, n]. The total is infinite if no kernel supports the shape.
  GemmTerms predict(double batch, double m, double n, double k) const;
};

}  // namespace tilesim::analytic
