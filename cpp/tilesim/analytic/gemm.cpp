#include "tilesim/analytic/gemm.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "tilesim/base/error.hpp"

namespace tilesim::analytic {

namespace {

/// After this many seconds of work, the power limiter lowers the clock; shorter measurements run at the full clock.
constexpr double power_seconds = 13.5e-3;
/// Number of matrix-vector blocks that share a unit.
constexpr double blocks_per_unit = 16;
/// Scratchpad bytes per result of a block: 4 for the f32 sum, and 4 for slices of the operands.
constexpr double bytes_per_result = 8;
/// Heuristics choose a smaller tile only if it is faster by this factor.
constexpr double rules_price = 1.5;

/// Smallest integer >= x, for 0 <= x < 2^62. std::ceil would be a library call on plain x86-64.
inline double up(double x) {
  const auto whole = static_cast<double>(static_cast<std::int64_t>(x));
  return whole < x ? whole + 1 : whole;
}

constexpr std::size_t most_kernels = 32;

/// Properties of a shape that do not depend on the candidate.
struct ProductShape {
  double batch, m, n, k;
  double weights, activations, outputs;             ///< bytes
  double hits;                                      ///< share of bytes found in the warm cache
  double seconds_per_byte;                          ///< for compulsory bytes
  double widen;                                     ///< seconds to widen or pack one weight
  double memory;                                    ///< seconds of compulsory bytes
  double per_unit, per_unit_byte, per_shared_byte;  ///< 1 / units; seconds per byte of one unit; of all units together
  double per_alone;                                 ///< 1 / alone
  double per_split;                                 ///< seconds of a reduction per split
  double powered;                                   ///< seconds of the arithmetic at the power limit
  bool fits;                                        ///< whether the cache can contain one product's operands
};

/// Share of bytes that repeated passes over a working set find in `usable` bytes of cache.
double found_share(const GemmModel& model, double working_set, double usable) {
  if (!model.scheme.warm || usable <= 0) return 0;
  return 1 / (1 + std::exp(std::min(700.0, (working_set / usable - 1) / model.constants.cache_edge)));
}

double hit_share(const GemmModel& model, double working_set) {
  return found_share(model, working_set, model.hardware.cache_bytes * model.constants.cache_fill);
}

double cache_rate(const GemmModel& model) { return model.hardware.cache_bytes_per_clock * model.hardware.clock; }

double weight_sets(const GemmModel& model, double weights) {
  const double sets = model.scheme.weight_sets;
  if (sets >= 0) return sets;
  return std::clamp(up(model.hardware.cache_bytes / std::max(1.0, weights)), 1.0, -sets);
}

/// Seconds per byte if the cache supplies share `hits`. A cache is never slower than the memory behind it.
double mixed_seconds(const GemmModel& model, double hits, double memory_share) {
  const double far = 1 / (model.hardware.memory_bytes_per_second * memory_share);
  return (1 - hits) * far + hits * std::min(far, 1 / (cache_rate(model) * model.constants.cache_share));
}

ProductShape describe(const GemmModel& model, double batch, double m, double n, double k) {
  const auto& s = model.scheme;
  ProductShape shape{batch,
                     m,
                     n,
                     k,
                     batch * n * k * s.weight_bytes,
                     batch * m * k * s.activation_bytes,
                     batch * m * n * s.output_bytes,
                     0,
                     0,
                     0,
                     0,
                     0,
                     0,
                     0,
                     1 / model.constants.alone,
                     0,
                     2 * batch * m * n * k / model.hardware.flops_per_second * (1 + model.constants.droop),
                     true};
  const double before_cast = s.cast_bytes > 0 ? batch * m * k * (s.cast_bytes - s.activation_bytes) : 0;
  const double working_set =
      weight_sets(model, shape.weights) * shape.weights + shape.activations + before_cast + shape.outputs;
  shape.hits = hit_share(model, working_set);
  shape.fits = (shape.weights + shape.activations) / batch <= model.hardware.cache_bytes * model.constants.cache_fill;
  shape.seconds_per_byte = mixed_seconds(model, shape.hits, model.constants.memory_share);
  shape.per_shared_byte = 1 / (cache_rate(model) * model.constants.reload_share);
  double misses = 1 - shape.hits;
  if (const auto& hw = model.hardware; hw.near_bytes > 0 && hw.near_bytes_per_clock > 0) {
    const double near = found_share(model, working_set, hw.near_bytes);
    const double rate = hw.near_bytes_per_clock * hw.clock;
    shape.seconds_per_byte = near / (rate * model.constants.cache_share) + (1 - near) * shape.seconds_per_byte;
    shape.per_shared_byte = near / (rate * model.constants.reload_share) + (1 - near) * shape.per_shared_byte;
    misses *= 1 - near;
  }
  if (s.widens && m * n * k > s.packs_beyond)
    shape.widen = (1 + misses * (model.constants.far - 1)) / (model.constants.convert * model.hardware.clock);
  shape.per_unit = 1 / model.hardware.units;
  shape.per_unit_byte = 1 / (model.constants.unit_bytes_per_clock * model.hardware.clock);
  shape.per_split = batch * m * n * 8 / (cache_rate(model) * model.constants.cache_share);  // f32 out and in
  shape.memory = (shape.weights + shape.activations + shape.outputs) * shape.seconds_per_byte;
  return shape;
}

/// log2 of a positive, normal x with an error below 1e-9. The library function would take most of a prediction's time.
inline double log2_of(double x) {
  auto bits = std::bit_cast<std::uint64_t>(x);
  // the exponent for which the mantissa is between sqrt(1/2) and sqrt(2)
  const auto exponent = static_cast<std::int64_t>((bits + 0x00095f6000000000ULL) >> 52) - 1023;
  bits -= static_cast<std::uint64_t>(exponent) << 52;
  const double m = std::bit_cast<double>(bits), s = (m - 1) / (m + 1), q = s * s;
  return static_cast<double>(exponent) +
         2.8853900817779268 * s * (1 + q * (1.0 / 3 + q * (1.0 / 5 + q * (1.0 / 7 + q * (1.0 / 9)))));
}

/// 2^x for -1000 < x < 1000; relative error below 1e-8.
inline double exp2_of(double x) {
  const auto whole = static_cast<std::int64_t>(x < 0 ? x - 0.5 : x + 0.5);
  const double f = (x - static_cast<double>(whole)) * 0.6931471805599453;
  const double p = 1 + f * (1 + f * (1.0 / 2 + f * (1.0 / 6 + f * (1.0 / 24 + f * (1.0 / 120 + f * (1.0 / 720))))));
  return p * std::bit_cast<double>(static_cast<std::uint64_t>(whole + 1023) << 52);
}

/// (a^p + b^p + c^p)^(1/p), scaled by the largest.
double combine(double a, double b, double c, double largest, double p) {
  if (largest <= 0) return 0;
  const auto part = [&](double x) {  // the largest term is 1; terms below a thousandth count as 0
    const double share = x / largest;
    return share == 1 ? 1 : share < 1e-3 && p >= 2 ? 0 : share < 1e-30 ? 0 : exp2_of(p * log2_of(share));
  };
  return largest * exp2_of(log2_of(part(a) + part(b) + part(c)) / p);
}

void keep(GemmTerms& best, const GemmTerms& terms) {
  if (terms[0] < best[0]) best = terms;
}

/// Matrix-vector kernel along `wide` outputs for `narrow` rows. If there are more rows than the kernel supports, each
/// pass reads and widens the wide operand again. If the narrow operand is the weights, every block widens it.
void vector_way(const GemmModel& model, const ProductShape& shape, const GemmKernel& kernel, bool weights_wide,
                GemmTerms& best) {
  const auto& c = model.constants;
  const auto& hw = model.hardware;
  const double narrow = weights_wide ? shape.m : shape.n, wide = weights_wide ? shape.n : shape.m;
  if (wide > kernel.most_n) return;
  const double passes = up(narrow / kernel.most_m), launch = passes * c.vector_launch;
  const double strips = up(wide / kernel.tile_n);
  const double filled =
      shape.batch * strips / (hw.units * blocks_per_unit);  // short blocks follow each other without rounds
  const double walk = passes * std::max(1.0, filled) * shape.k / c.vector_rate;
  const double again = (passes - 1) * (weights_wide ? shape.weights : shape.activations);
  const double memory = shape.memory + again * shape.seconds_per_byte;
  double lanes = 2 * shape.batch * shape.m * shape.n * shape.k /
                 std::min(hw.flops_per_second, hw.units * hw.clock * hw.lane_flops_per_clock);
  if (model.scheme.weight_bytes < model.scheme.activation_bytes)  // nothing is packed, but narrow weights are widened
    lanes += (weights_wide ? passes : strips) * shape.batch * shape.n * shape.k * shape.widen * shape.per_unit;
  const double largest = std::max({memory, walk, lanes});
  if (launch + largest >= best[0]) return;
  const double total = launch + combine(lanes, walk, memory, largest, c.overlap);
  keep(best,
       {total, launch, lanes, walk, memory, 0, 0, shape.m, kernel.tile_n, 1, shape.hits, walk, std::min(1.0, filled)});
}

void vector_candidate(const GemmModel& model, const ProductShape& shape, const GemmKernel& kernel, GemmTerms& best) {
  vector_way(model, shape, kernel, true, best);
  vector_way(model, shape, kernel, false, best);
}

/// One tile shape for one product: values that do not depend on the split of k.
struct Tiling {
  double tiles;          ///< without a split
  double rounds;         ///< without a split
  double seconds_per_k;  ///< for one tile on one unit at full clock
  double bytes_per_k;    ///< for one tile
  double widen_per_k;    ///< seconds to widen the weights of one tile
  double memory;         ///< seconds
  double whole_k;        ///< k-steps without a split
  double price;          ///< factor on the arithmetic of a kernel that heuristics do not choose
};

/// Rounds of tiles over the units. The last round counts by its share, to the degree of smoothing.
double rounds_of(const GemmConstants& c, double waves, double whole) {
  return (1 - c.wave_smoothing) * whole + c.wave_smoothing * std::max(waves, 1.0);
}

Tiling tile_up(const GemmModel& model, const ProductShape& shape, const GemmKernel& kernel, double least_area) {
  const auto& c = model.constants;
  const auto& hw = model.hardware;
  Tiling t{};
  t.tiles = shape.batch * up(shape.m / kernel.tile_m) * up(shape.n / kernel.tile_n);
  t.rounds = rounds_of(c, t.tiles * shape.per_unit, up(t.tiles * shape.per_unit));
  const double extent = kernel.tile_m * kernel.tile_n / (kernel.tile_m + kernel.tile_n);
  t.seconds_per_k = 2 * kernel.tile_m * kernel.tile_n * hw.units * (extent + c.half_tile) /
                    (hw.flops_per_second * c.efficiency * extent);
  t.bytes_per_k = kernel.tile_m * model.scheme.activation_bytes + kernel.tile_n * model.scheme.weight_bytes;
  t.widen_per_k = kernel.tile_n * shape.widen;
  t.whole_k = up(shape.k / kernel.tile_k);
  t.memory = shape.memory;
  t.price = kernel.tile_m * kernel.tile_n < least_area ? rules_price : 1;
  // The tiles of one wave, or of a scratchpad, form a block of the result; operands are read once per block.
  if (!shape.fits) {
    const double wave = std::min(t.tiles, hw.units) * kernel.tile_m * kernel.tile_n;
    const double side = std::sqrt(std::max(wave, hw.block_bytes / bytes_per_result));
    const double bytes =
        shape.batch * shape.m * shape.n * shape.k * (model.scheme.activation_bytes + model.scheme.weight_bytes) / side;
    t.memory = std::max(t.memory, bytes * shape.seconds_per_byte);
  }
  return t;
}

/// Whether no split of this kernel can be faster than `best`, even if all units are always busy.
bool hopeless(const GemmModel& model, double per_unit, const Tiling& t, const GemmKernel& kernel, double best) {
  const double busy = t.tiles * per_unit * t.whole_k * kernel.tile_k * t.seconds_per_k;
  return model.constants.launch + std::max(busy, t.memory) >= best;
}

/// Degree from 0 to 1 to which the power limit has an effect if kernels of this length run one after another.
double limited(double seconds, double calls) {
  const double x = seconds * calls / power_seconds;
  return x * x / (1 + x * x);
}

/// The longer of a kernel's time at full clock and its arithmetic's time at the power limit, with a gradual transition,
/// because the clock falls before the limit is reached.
double powered(double compute, double at_limit) {
  const double ratio = at_limit / compute, square = ratio * ratio;
  if (ratio < 0.01) return compute;
  return compute * std::sqrt(std::sqrt(1 + square * square));
}

void tile_candidate(const GemmModel& model, const ProductShape& shape, const GemmKernel& kernel, const Tiling& t,
                    double splits, GemmTerms& best) {
  const auto& c = model.constants;
  const double tiles = t.tiles * splits, waves = tiles * shape.per_unit, whole = up(waves);
  const double started = c.launch + c.tile * (whole - 1);
  const double reduction = splits > 1 ? c.split + shape.per_split * splits : 0;
  if (started + reduction + t.memory >= best[0]) return;
  const double steps = splits > 1 ? up(t.whole_k / splits) : t.whole_k, depth = steps * kernel.tile_k;
  const double rounds = rounds_of(c, waves, whole);
  const double busy = std::max(rounds, shape.per_alone);  // a second tile fills the gaps that one tile leaves
  double compute = busy * (depth + c.epilogue_steps) * t.seconds_per_k;
  const double latency = whole * steps * c.step;
  compute = std::max(compute, latency);
  if (splits > 1 && model.scheme.rules &&
      t.tiles > model.hardware.units)  // not faster than the unsplit kernel at k = deep
    compute = std::max(compute, t.rounds * std::min(shape.k, c.deep) * t.seconds_per_k);
  const double load =
      depth * std::max(t.bytes_per_k * std::max(rounds * shape.per_unit_byte, tiles * shape.per_shared_byte),
                       busy * t.widen_per_k);
  if (started + reduction + std::max({compute, load, t.memory}) >= best[0]) return;
  compute *= t.price;
  compute = powered(compute, limited(compute, model.scheme.calls) * shape.powered);
  const double largest = std::max({compute, load, t.memory});
  if (started + reduction + largest >= best[0]) return;
  if (c.overlap <= 4) {  // norms fall with rising exponent: the norm of four is a cheap lower bound (two square roots)
    const double a = compute * compute, b = load * load, d = t.memory * t.memory;
    if (started + reduction + std::sqrt(std::sqrt(a * a + b * b + d * d)) >= best[0]) return;
  }
  const double total = started + reduction + combine(compute, load, t.memory, largest, c.overlap);
  if (total >= best[0]) return;
  keep(best, {total, started, compute, load, t.memory, reduction, 0, kernel.tile_m, kernel.tile_n, splits, shape.hits,
              latency, waves / whole});
}

/// Area of the largest tile of which there are more than units; heuristics consider no smaller tile.
double filling_area(const GemmModel& model, const ProductShape& shape) {
  double area = 0;
  for (const auto& kernel : model.kernels)
    if (kernel.tile_m > 0 && kernel.tile_m <= shape.m && kernel.tile_n <= shape.n &&
        up(shape.m / kernel.tile_m) * up(shape.n / kernel.tile_n) > model.hardware.units)
      area = std::max(area, kernel.tile_m * kernel.tile_n);
  return area;
}

double cast_seconds(const GemmModel& model, const ProductShape& shape) {
  if (model.scheme.cast_bytes <= 0) return 0;
  const auto& c = model.constants;
  const double bytes = shape.batch * shape.m * shape.k * model.scheme.cast_bytes;
  const double hits = hit_share(model, bytes + shape.outputs + weight_sets(model, shape.weights) * shape.weights);
  return c.cast + shape.batch * shape.m * c.cast_row / model.hardware.units +
         bytes * mixed_seconds(model, hits, c.cast_share);
}

}  // namespace

std::span<const GemmConstantInfo> gemm_constants() {
  static const std::array table{
#define TILESIM_ROW(name, value, low, high, unit) GemmConstantInfo{#name, &GemmConstants::name, value, low, high, unit},
      TILESIM_GEMM_CONSTANTS(TILESIM_ROW)
#undef TILESIM_ROW
  };
  return table;
}

std::span<const std::string_view> gemm_term_names() {
  static constexpr std::array<std::string_view, gemm_term_count> names{
      "total",  "launch", "compute", "load", "memory",  "split",    "cast",
      "tile_m", "tile_n", "splits",  "hits", "latency", "occupancy"};
  return names;
}

void GemmModel::check() const {
  if (kernels.empty() || kernels.size() > most_kernels)
    throw UserError({"wrong number of kernels", {}, std::to_string(kernels.size()), "1 to 32", {}});
  for (const auto& info : gemm_constants()) {
    const double value = constants.*info.field;
    if (!(value >= info.low && value <= info.high))
      throw UserError({"constant out of range",
                       std::string(info.name),
                       std::to_string(value),
                       std::to_string(info.low) + " to " + std::to_string(info.high),
                       {}});
  }
  const auto& hw = hardware;
  for (const double value : {hw.units, hw.clock, hw.flops_per_second, hw.memory_bytes_per_second,
                             hw.cache_bytes_per_clock, scheme.activation_bytes, scheme.weight_bytes})
    if (!(value > 0)) throw UserError({"a device's rates must be positive", {}, std::to_string(value), {}, {}});
}

namespace {

/// Whether a kernel supports the shape, padded to the kernel's least extents if necessary.
bool serves(const GemmKernel& kernel, double m, double n) {
  if (kernel.tile_m == 0) return true;  // larger operands need several passes
  return m <= kernel.most_m && n <= kernel.most_n;
}

/// The fastest candidate of one kernel, with splits in [first, last].
void consider(const GemmModel& model, const ProductShape& shape, const GemmKernel& kernel, double least_area,
              double first, double last, GemmTerms& best) {
  if (kernel.tile_m == 0) {
    if (first <= 1) vector_candidate(model, shape, kernel, best);
    return;
  }
  const Tiling tiling = tile_up(model, shape, kernel, least_area);
  if (hopeless(model, shape.per_unit, tiling, kernel, first > 1 ? best[0] - model.constants.split : best[0])) return;
  const bool every = kernel.most_splits < 8;
  for (double splits = first; splits <= last; splits = every ? splits + 1 : splits * 2)
    tile_candidate(model, shape, kernel, tiling, splits, best);
}

}  // namespace

GemmTerms GemmModel::predict(double batch, double m, double n, double k) const {
  GemmTerms best{};
  best[0] = std::numeric_limits<double>::infinity();
  const ProductShape shape = describe(*this, batch, m, n, k);
  const double least_area = scheme.rules ? filling_area(*this, shape) : 0;
  const auto pass = [&](bool split) {
    for (const auto& kernel : kernels) {
      if ((split && kernel.most_splits < 2) || !serves(kernel, m, n)) continue;
      const double first = split ? 2 : 1, last = split ? kernel.most_splits : 1;
      if (m >= kernel.least_m && n >= kernel.least_n)
        consider(*this, shape, kernel, least_area, first, last, best);
      else
        consider(*this, describe(*this, batch, std::max(m, kernel.least_m), std::max(n, kernel.least_n), k), kernel,
                 least_area, first, last, best);
    }
  };
  pass(false);  // the best time of these kernels prunes most of the splits
  pass(true);
  best[10] = shape.hits;
  best[6] = cast_seconds(*this, shape);
  best[0] += best[6];
  const double waited = std::max(0.0, scheme.host - best[0]);  // for the host's next call
  best[0] += waited;
  best[1] += waited;
  return best;
}

}  // namespace tilesim::analytic
