// Closed-form time of a matrix product on a device of equal units (streaming multiprocessors, cores, arrays).
//
// A library chooses a tile shape and a split of k from a menu; the model takes the fastest of all candidates. The terms
// of a candidate, in seconds:
//     compute  waves of tiles over units; each k-step and the epilogue run at the tile's share of the peak rate
//     load     operands of every tile from the shared cache, limited by one unit or by all units together
//     memory   bytes missing in the warm cache at the memory's rate, other bytes at the cache's rate
//     total    launch + waves of tiles + (compute^p + load^p + memory^p)^(1/p) + reduction of the split
// A scheme may add a cast of the activations before the product. docs/explanation/closed_form.md explains each term.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tilesim/analytic/constants.hpp"

namespace tilesim::analytic {

/// The data of a device for one scheme.
struct GemmHardware {
  double units = 1;
  double clock = 1e9;              ///< Hz
  double flops_per_second = 1e12;  ///< rate of the scheme's arithmetic on all units together
  double memory_bytes_per_second = 1e11;
  double cache_bytes = 0;               ///< size of the last cache level, which all units share
  double cache_bytes_per_clock = 1024;  ///< rate of this level for all units together
  double near_bytes = 0;                ///< size of a nearer level for entire products (second cache of a CPU); 0: none
  double near_bytes_per_clock = 0;      ///< rate of the nearer level for all units together
  double block_bytes = 0;               ///< scratchpad for a block of the result; 0: the hardware has a cache
  double lane_flops_per_clock = 256;    ///< rate of a unit's ordinary lanes, at most the scheme's rate
};

/// Bytes per element, and how the benchmark uses weights.
struct GemmScheme {
  double activation_bytes = 2;  ///< activations as the product reads them
  double weight_bytes = 2;
  double output_bytes = 2;
  double cast_bytes = 0;    ///< bytes read and written per activation by a cast kernel before the product; 0: no cast
  double weight_sets = 1;   ///< distinct weights in repeated calls; negative: enough to fill the cache, at most -value
  bool widens = false;      ///< whether the product's own loop widens or packs weights
  bool warm = true;         ///< whether operands may be in the cache
  double packs_beyond = 0;  ///< smaller products (in multiply-adds) widen or pack nothing
  double calls = 1000;      ///< consecutive products per measurement
  double host = 0;          ///< host seconds per call in addition to the device, without replay of a graph
  bool rules = false;       ///< the library chooses by rules, not by timing all kernels (see GemmKernel)
};

/// The constants of a family and scheme: X(name, default, lowest, highest, unit).
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

/// An entry of the library's menu. It supports products whose m and n are in the given ranges; smaller extents are
/// padded to the tile. Matrix-vector: one of both extents is at most `most_m` in each pass, the other at most `most_n`.
/// If the library uses rules, smaller tiles and splits only serve to fill idle units: with more tiles than units, the
/// model considers no smaller tile and splits k only above `deep`.
struct GemmKernel {
  double tile_m = 128, tile_n = 128,
         tile_k = 64;      ///< tile_m 0: matrix-vector; a block walks k for tile_n of the longer extent
  double most_splits = 1;  ///< all powers of two up to this; below 8: every number
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
/// Seconds of each term, except: tile sizes and splits are numbers; hits is the share of bytes found in the cache;
/// latency is the part of compute in which k-steps take their least time; occupancy is tiles / places in all rounds of
/// the units.
using GemmTerms = std::array<double, gemm_term_count>;

struct GemmModel {
  GemmHardware hardware;
  GemmScheme scheme;
  GemmConstants constants;
  std::vector<GemmKernel> kernels;

  /// Throws UserError if the model has no kernels or values out of range.
  void check() const;
  /// The terms for `batch` products of [m, k] by [k, n]. The total is infinite if no kernel supports the shape.
  GemmTerms predict(double batch, double m, double n, double k) const;
};

}  // namespace tilesim::analytic
