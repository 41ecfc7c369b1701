#include "tilesim/mapping/attention.hpp"

#include <algorithm>
#include <cmath>

#include "tilesim/base/shape.hpp"
#include "tilesim/tile/compute.hpp"
#include "tilesim/tile/latency.hpp"

namespace tilesim::mapping {

namespace {

constexpr std::int64_t alignment = 64;

double cores_of(const Share& machine) { return static_cast<double>(std::max<std::int64_t>(1, machine.core.count)); }

/// Of one core, while all are at work.
double bytes_per_cycle(const Share& machine) {
  return static_cast<double>(machine.memory.bytes_per_second) * machine.memory.efficiency /
         static_cast<double>(machine.core.clock.hertz);
}

Descriptor product(const Share& machine, DType a, DType b, std::int64_t m, std::int64_t k, std::int64_t n,
                   bool stationary_a) {
  ProductDims dims;
  dims.a = a;
  dims.b = b;
  dims.stationary_a = stationary_a;
  const std::int64_t extents[] = {m, k, n};
  return product_descriptor(dims, machine.layout, [&](int i) { return extents[i]; });
}

TileLatency vector(const Share& machine, std::array<std::int32_t, 4> functions, std::int64_t reductions,
                   std::int64_t rows, std::int64_t columns) {
  VectorWork work;
  work.functions = functions;
  work.lane_reductions = reductions;
  const std::int64_t extents[] = {rows, columns};
  return vector_latency(machine, vector_descriptor(DType::f32, work, 2, -1, [&](int i) { return extents[i]; }));
}

class Pricing {
 public:
  Pricing(const AttentionProblem& problem, const Share& machine) : p_(problem), machine_(machine) {}

  /// Fills buffers, bytes and cycles; false where the tiles do not fit.
  bool price(AttentionPlan& plan) const {
    add_buffers(plan);
    if (!fits(plan)) return false;
    const std::int64_t tiles = ceil_div(p_.queries, plan.queries), parts = ceil_div(tiles, plan.per_part);
    const std::int64_t groups = p_.batch * p_.key_heads * ceil_div(p_.shared(), plan.heads);
    const double step = step_cycles(plan, false), masked = step_cycles(plan, true), around = around_cycles(plan);
    plan.paired = p_.causal && parts > 1 && groups * ceil_div(parts, 2) >= machine_.core.count;
    double all = 0, longest = 0, loaded = 0, steps = 0;
    for (std::int64_t part = 0; part < parts; ++part) {
      double own = 0;
      std::int64_t low = INT64_MAX, high = 0;
      for (std::int64_t i = part * plan.per_part; i < std::min(tiles, (part + 1) * plan.per_part); ++i) {
        const KeyTiles seen =
            seen_tiles(p_, plan.keys, i * plan.queries, std::min(plan.queries, p_.queries - i * plan.queries));
        const std::int64_t count = std::max<std::int64_t>(0, seen.end - seen.begin);
        const std::int64_t border =
            p_.hides() ? std::min(count, ceil_div(plan.queries, plan.keys) + (p_.window > 0)) : 0;
        own += around + step * static_cast<double>(count - border) + masked * static_cast<double>(border);
        steps += static_cast<double>(count);
        if (count > 0) low = std::min(low, seen.begin), high = std::max(high, seen.end);
        if (!plan.resident) loaded += static_cast<double>(count);
      }
      if (plan.resident && high > low) loaded += static_cast<double>(high - low);
      all += own;
      longest = std::max(longest, own);
    }
    const auto many = static_cast<double>(groups);
    const double cores = cores_of(machine_);
    const auto units = static_cast<double>(groups * (plan.paired ? ceil_div(parts, 2) : parts));
    if (p_.causal && !plan.paired && parts > 1 && cores_of(machine_) > 1)
      longest = std::max(longest, 2 * all * many / units);  // neighbours are on one core
    const double compute = std::max(longest, all * many / units * std::ceil(units / cores));
    const auto size = static_cast<double>(host_bytes(p_.stored));
    const auto rows = static_cast<double>(p_.batch * p_.heads * p_.queries);
    const double keys = loaded * many * static_cast<double>(std::min(plan.keys, p_.keys));
    double bytes =
        rows * static_cast<double>(p_.depth + p_.width) * size + keys * static_cast<double>(p_.depth + p_.width) * size;
    if (p_.mask) bytes += steps * many * static_cast<double>(plan.rows() * plan.keys * host_bytes(*p_.mask));
    plan.bytes = static_cast<std::int64_t>(bytes);
    const double first = static_cast<double>((plan.rows() + plan.keys) * p_.depth) * size / bytes_per_cycle(machine_);
    // With one buffer, the first keys of a part are waited for.
    const double waits = plan.key_buffers > 1 ? 1 : std::ceil(units / cores);
    plan.cycles = std::max(compute, bytes / cores / bytes_per_cycle(machine_)) + waits * first +
                  static_cast<double>(machine_.core.kernel_launch_cycles);
    return true;
  }

 private:
  void add_buffers(AttentionPlan& plan) const {
    const std::int64_t rows = plan.rows(), held = plan.resident ? p_.keys : plan.keys;
    plan.buffers = {{"q", p_.stored, rows * p_.depth, 2},
                    {"k", p_.stored, held * p_.depth, plan.key_buffers},
                    {"v", p_.stored, held * p_.width, plan.key_buffers},
                    {"s", DType::f32, rows * plan.keys, 2, true},
                    {"p", p_.stored, rows * plan.keys, 2},
                    {"tile_max", DType::f32, rows, 1},
                    {"row_max", DType::f32, rows, 1},
                    {"shift", DType::f32, rows, 1},
                    {"factor", DType::f32, rows, 1},
                    {"row_sum", DType::f32, rows, 1},
                    {"acc", DType::f32, rows * p_.width, 1, true},
                    {"y", p_.stored, rows * p_.width, 2}};
    if (p_.mask) plan.buffers.push_back({"mask", *p_.mask, rows * plan.keys, 2});
  }

  bool fits(const AttentionPlan& plan) const {
    std::int64_t scratchpad = 0, sums = 0;
    for (const AttentionPlan::Buffer& buffer : plan.buffers) {
      const std::int64_t bytes =
          buffer.depth * round_up(buffer.elements * host_bytes(buffer.dtype), alignment) + alignment;
      (buffer.sums && machine_.core.scratchpad.accumulator_bytes > 0 ? sums : scratchpad) += bytes;
    }
    return scratchpad <= machine_.core.scratchpad.bytes &&
           sums <=
               machine_.core.scratchpad.accumulator_bytes + (machine_.core.scratchpad.accumulator_bytes > 0 ? 0 : sums);
  }

  TileLatency scores_of(const AttentionPlan& plan) const {
    const std::int64_t each = ceil_div(plan.rows(), machine_.core.array.count);
    return array_latency(
        machine_, product(machine_, p_.stored, p_.stored, each, p_.depth, plan.keys, plan.queries_stay), {false, true});
  }

  /// The vector unit turns scores into weights, one compute after the other.
  std::int64_t weights_cycles(const AttentionPlan& plan, bool masked) const {
    const std::int64_t rows = plan.rows();
    const std::int32_t scaled = p_.reshapes || (masked && !plan.folds) ? 1 : 0;
    const TileLatency best =
        vector(machine_, {1 + (p_.reshapes ? 2 : 0) + (masked ? 6 : 0), scaled, 0, 0}, 1, rows, plan.keys);
    const TileLatency row = vector(machine_, {3, 2, 0, 1}, 0, 1, rows);
    const TileLatency weights = vector(machine_, {2, plan.folds ? 0 : 1, 0, 1}, 1, rows, plan.keys);
    return best.done + row.done + weights.done;
  }

  /// Of one tile of keys, of which some are hidden where `masked`: arrays and vector unit work side by side, but for
  /// what follows each other.
  double step_cycles(const AttentionPlan& plan, bool masked) const {
    const std::int64_t rows = plan.rows(), each = ceil_div(rows, machine_.core.array.count);
    const TileLatency scores = scores_of(plan);
    const History running{false, true};
    const TileLatency sums = array_latency(
        machine_, product(machine_, p_.stored, p_.stored, each, plan.keys, p_.width, plan.queries_stay), running);
    const TileLatency rescale = vector(machine_, {0, 1, 0, 0}, 0, rows, p_.width);
    const std::int64_t arrays = scores.busy + sums.busy;
    const std::int64_t units = weights_cycles(plan, masked) + rescale.busy;
    const std::int64_t chain = sums.done + rescale.done;
    // A few rows: results come long after the arrays are free, and what needs them waits, one after the other.
    if (plan.rows() < machine_.core.array.rows) return static_cast<double>(scores.done + units + chain);
    return static_cast<double>(std::max({arrays, units, chain}));
  }

  /// What begins and ends a tile of queries, the first scores and the last sums.
  double around_cycles(const AttentionPlan& plan) const {
    const TileLatency begin = vector(machine_, {0, 0, 0, 0}, 0, plan.rows(), p_.width);
    const TileLatency end = vector(machine_, {1, 0, 1, 0}, 0, plan.rows(), p_.width);
    const TileLatency scaled = vector(machine_, {0, 1, 0, 0}, 0, plan.rows(), p_.depth);
    // Scores of a tile begin under the end of the one before, unless queries wait for the vector unit.
    const std::int64_t alone = plan.folds ? scaled.done + static_cast<std::int64_t>(step_cycles(plan, false) / 2) : 0;
    // The arrays wait for the first weights of a tile, but for the next scores.
    const std::int64_t first = std::max<std::int64_t>(0, weights_cycles(plan, false) - scores_of(plan).busy);
    return static_cast<double>(begin.done + end.done + alone + first) +
           static_cast<double>(machine_.core.array.rows + machine_.core.array.columns);
  }

  const AttentionProblem& p_;
  const Share& machine_;
};

/// The whole extent and what fills arrays, large to small.
std::vector<std::int64_t> sizes(std::int64_t extent, std::int64_t most) {
  std::vector<std::int64_t> result;
  if (extent <= most) result.push_back(extent);
  for (std::int64_t size = most; size >= 8; size /= 2)
    if (size < extent) result.push_back(size);
  return result;
}

}  // namespace

KeyTiles seen_tiles(const AttentionProblem& problem, std::int64_t tile, std::int64_t first, std::int64_t count) {
  KeyTiles seen{0, ceil_div(problem.keys, tile)};
  if (problem.causal)
    seen.end = ceil_div(std::clamp<std::int64_t>(first + count + problem.offset, 0, problem.keys), tile);
  if (problem.window > 0)
    seen.begin = std::max<std::int64_t>(0, floor_div(first + problem.offset - problem.window + 1, tile));
  return seen;
}

std::optional<AttentionPlan> plan_attention(const AttentionProblem& problem, const Share& machine) {
  constexpr std::int64_t most_queries = 2048, most_keys = 4096;
  const Pricing pricing(problem, machine);
  constexpr double traffic_weight = 0.05;
  const double rate = cores_of(machine) * bytes_per_cycle(machine);
  std::optional<AttentionPlan> best;
  double least = 0;
  const auto consider = [&](AttentionPlan plan) {
    for (const int choice : {0, 1, 2, 3}) {
      plan.queries_stay = choice % 2 > 0;
      plan.folds = choice > 1;
      if (plan.folds && !problem.power_of_two) break;
      if (!pricing.price(plan)) continue;
      // What others need of memory counts too, a little.
      const double cost = plan.cycles + traffic_weight * static_cast<double>(plan.bytes) / rate;
      if (!best || cost < least) least = cost, best = plan;
    }
  };
  for (const std::int64_t queries : sizes(problem.queries, most_queries))
    for (std::int64_t heads = 1; heads <= problem.shared();
         heads = heads < problem.shared() ? std::min(2 * heads, problem.shared()) : heads + 1) {
      if (heads > 1 && (problem.queries % queries != 0 || heads * queries > most_queries)) break;
      if (heads > 1 && problem.mask && problem.queries > 1) break;  // a row's mask is not at one distance from the last
      for (const std::int64_t keys : sizes(problem.keys, most_keys)) {
        AttentionPlan plan;
        plan.heads = heads;
        plan.queries = queries;
        plan.keys = keys;
        consider(plan);
        const std::int64_t tiles = ceil_div(problem.queries, queries);
        for (std::int64_t parts = 1; parts <= tiles && parts <= 2 * machine.core.count; parts *= 2) {
          plan.resident = true;
          plan.per_part = ceil_div(tiles, parts);
          for (plan.key_buffers = 2; plan.key_buffers > 0; --plan.key_buffers) consider(plan);
        }
      }
    }
  return best;
}

double attention_apart_cycles(const AttentionProblem& p, const Share& machine) {
  const double cores = cores_of(machine), rate = cores * bytes_per_cycle(machine);
  const double arrays = cores * static_cast<double>(machine.core.array.count);
  const auto groups = static_cast<double>(p.batch * p.key_heads);
  const std::int64_t rows = p.shared() * p.queries;
  const History running{false, true};
  const auto product_cycles = [&](DType a, std::int64_t k, std::int64_t n) {
    std::int64_t least = INT64_MAX;
    for (const bool stay : {false, true})
      least = std::min(least, array_latency(machine, product(machine, a, p.stored, rows, k, n, stay), running).busy);
    return static_cast<double>(least) * groups / arrays;
  };
  const auto size = static_cast<double>(host_bytes(p.stored)), wide = 4.0;
  const auto scores = static_cast<double>(rows) * static_cast<double>(p.keys) * groups;
  const auto ends = [&](std::int64_t width) {
    return (static_cast<double>(rows * width) + static_cast<double>(p.keys * width)) * groups * size;
  };
  const TileLatency softmax =
      vector(machine, {2 + (p.hides() ? 4 : 0) + (p.reshapes ? 2 : 0), 1, 1, 1}, 2, rows, p.keys);
  const double mask = p.mask ? scores * static_cast<double>(host_bytes(*p.mask)) : 0;
  return std::max(product_cycles(p.stored, p.depth, p.keys), (ends(p.depth) + scores * wide) / rate) +
         std::max(static_cast<double>(softmax.busy) * groups / cores, (2 * scores * wide + mask) / rate) +
         std::max(product_cycles(DType::f32, p.keys, p.width), (ends(p.width) + scores * wide) / rate) +
         3 * static_cast<double>(machine.core.kernel_launch_cycles);
}

}  // namespace tilesim::mapping
