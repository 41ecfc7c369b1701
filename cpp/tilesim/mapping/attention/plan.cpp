#include "tilesim/mapping/attention/plan.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tilesim/base/shape.hpp"
#include "tilesim/machine/parts.hpp"
#include "tilesim/mapping/attention/walk.hpp"
#include "tilesim/tile/compute.hpp"
#include "tilesim/tile/latency.hpp"

namespace tilesim::mapping {

namespace {

constexpr std::int64_t alignment = 64;

double cores_of(const Share& machine) { return static_cast<double>(std::max<std::int64_t>(1, machine.core.count)); }

/// Memory bandwidth per core, in bytes per cycle, if all cores are busy.
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

  /// Sets buffers, bytes and pairs; returns false if the tiles do not fit.
  bool fill(AttentionPlan& plan) const {
    add_buffers(plan);
    if (!fits(plan)) return false;
    const std::int64_t tiles = ceil_div(p_.queries, plan.queries), parts = ceil_div(tiles, plan.per_part);
    plan.paired = p_.causal && parts > 1 && groups(plan) * ceil_div(parts, 2) >= machine_.core.count;
    plan.bytes = moved(plan, tiles);
    return true;
  }

  /// Cycles that memory needs for the plan's bytes.
  double memory_cycles(const AttentionPlan& plan) const {
    return static_cast<double>(plan.bytes) / cores_of(machine_) / bytes_per_cycle(machine_);
  }

 private:
  std::int64_t groups(const AttentionPlan& plan) const {
    return p_.batch * p_.key_heads * ceil_div(p_.shared(), plan.heads);
  }

  std::int64_t moved(const AttentionPlan& plan, std::int64_t tiles) const {
    std::int64_t loaded = 0, steps = 0, low = INT64_MAX, high = 0;
    for (std::int64_t i = 0; i < tiles; ++i) {
      const KeyTiles seen =
          seen_tiles(p_, plan.keys, i * plan.queries, std::min(plan.queries, p_.queries - i * plan.queries));
      const std::int64_t count = std::max<std::int64_t>(0, seen.end - seen.begin);
      steps += count;
      if (count > 0) low = std::min(low, seen.begin), high = std::max(high, seen.end);
      if (!plan.resident) {
        loaded += count;
      } else if ((i + 1) % plan.per_part == 0 || i + 1 == tiles) {
        loaded += std::max<std::int64_t>(0, high - low);
        low = INT64_MAX, high = 0;
      }
    }
    const std::int64_t size = host_bytes(p_.stored), ends = p_.depth + p_.width, many = groups(plan);
    const std::int64_t rows = p_.batch * p_.heads * p_.queries;
    std::int64_t bytes = rows * ends * size + loaded * many * std::min(plan.keys, p_.keys) * ends * size;
    if (p_.mask) bytes += steps * many * p_.mask_elements(plan.heads, plan.rows(), plan.keys) * host_bytes(*p_.mask);
    if (plan.splits > 1) bytes += 2 * plan.splits * rows * (p_.width + 2) * 4;
    if (p_.lse) bytes += rows * 4;
    return bytes;
  }

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
                    {"y", plan.splits > 1 ? DType::f32 : p_.stored, rows * p_.width, 2}};
    if (plan.splits > 1)
      for (const char* name : {"part_max", "part_weight"}) plan.buffers.push_back({name, DType::f32, rows, 2});
    if (p_.mask) plan.buffers.push_back({"mask", *p_.mask, rows * plan.keys, 2});
    if (p_.lse && plan.splits == 1) plan.buffers.push_back({"lse", DType::f32, rows, 2});
  }

  bool fits(const AttentionPlan& plan) const {
    std::int64_t scratchpad = 0, sums = 0;
    for (const SlotRing& buffer : plan.buffers) {
      const std::int64_t bytes =
          buffer.depth * round_up(buffer.elements * host_bytes(buffer.dtype), alignment) + alignment;
      (buffer.sums && machine_.core.scratchpad.accumulator_bytes > 0 ? sums : scratchpad) += bytes;
    }
    return scratchpad <= machine_.core.scratchpad.bytes &&
           sums <=
               machine_.core.scratchpad.accumulator_bytes + (machine_.core.scratchpad.accumulator_bytes > 0 ? 0 : sums);
  }

  const AttentionProblem& p_;
  const Share& machine_;
};

/// Tile sizes, descending: the extent if it is at most `most`, then `most`, most / 2, ... down to 8.
std::vector<std::int64_t> sizes(std::int64_t extent, std::int64_t most) {
  std::vector<std::int64_t> result;
  if (extent <= most) result.push_back(extent);
  for (std::int64_t size = most; size >= 8; size /= 2)
    if (size < extent) result.push_back(size);
  return result;
}

/// The tile sizes of `sizes`, rounded to multiples of a page or to equal parts of a page.
std::vector<std::int64_t> key_sizes(const AttentionProblem& problem, std::int64_t most) {
  std::vector<std::int64_t> result = sizes(problem.keys, most);
  if (problem.page == 0) return result;
  for (std::int64_t& size : result) {
    std::int64_t parts = 1;
    while (problem.page % (2 * parts) == 0 && problem.page / parts > size) parts *= 2;
    size = size >= problem.page ? round_up(size, problem.page) : problem.page / parts;
  }
  result.erase(std::unique(result.begin(), result.end()), result.end());
  if (result.empty()) result.push_back(problem.page);
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

SeenRows seen_rows(const AttentionProblem& problem, std::int64_t first, std::int64_t count, std::int64_t start,
                   std::int64_t keys) {
  const std::int64_t nearest = start - first - problem.offset;  // the row whose last visible key is the first key
  SeenRows seen{0, count};
  if (problem.causal) seen.from = std::max<std::int64_t>(0, nearest);
  if (problem.window > 0) seen.to = std::min(count, nearest + keys + problem.window - 1);
  return seen;
}

std::int64_t AttentionPlan::split_tiles(const AttentionProblem& problem) const {
  return ceil_div(ceil_div(problem.keys, keys), splits);
}

AttentionTrips attention_trips(const AttentionProblem& problem, const AttentionPlan& plan, std::int64_t cores) {
  const std::int64_t parts = ceil_div(ceil_div(problem.queries, plan.queries), plan.per_part);
  const std::vector<std::int64_t> extents{problem.batch, ceil_div(problem.key_heads, plan.groups),
                                          ceil_div(problem.shared(), plan.heads),
                                          plan.splits > 1 ? plan.splits
                                          : plan.paired   ? ceil_div(parts, 2)
                                                          : parts};
  const std::vector<std::int64_t> own = parts_of_loops(extents, cores);
  const auto trips = [&](std::size_t i) { return ceil_div(extents[i], own[i]); };
  AttentionTrips result{trips(0), trips(1), trips(2)};
  (plan.splits > 1 ? result.splits : result.parts) = trips(3);
  for (const std::int64_t count : own) result.cores *= count;
  return result;
}

namespace {

/// All choices of tiles that fit, with a lower bound on their time.
class Candidates {
 public:
  Candidates(const AttentionProblem& problem, const Share& machine)
      : p_(problem), machine_(machine), pricing_(problem, machine) {}

  std::vector<AttentionPlan> list() {
    for (const std::int64_t queries : sizes(p_.queries, most_queries))
      for (std::int64_t heads = 1; heads <= p_.shared();
           heads = heads < p_.shared() ? std::min(2 * heads, p_.shared()) : heads + 1) {
        if (heads > 1 && (p_.queries % queries != 0 || heads * queries > most_queries)) break;
        if (heads > 1 && p_.mask && p_.queries > 1) break;  // the mask rows of a tile have no constant stride
        for (const std::int64_t keys : key_sizes(p_, most_keys)) add_tiles(queries, heads, keys);
      }
    return std::move(plans_);
  }

 private:
  static constexpr std::int64_t most_queries = 2048, most_keys = 4096;

  void add_tiles(std::int64_t queries, std::int64_t heads, std::int64_t keys) {
    AttentionPlan plan;
    plan.heads = heads;
    plan.queries = queries;
    plan.keys = keys;
    add_splits(plan);
    const std::int64_t tiles = ceil_div(p_.queries, queries);
    if (tiles > 2 * machine_.core.count) add(plan);
    for (std::int64_t parts = 1; parts <= tiles && parts <= 2 * machine_.core.count; parts *= 2) {
      plan.per_part = ceil_div(tiles, parts);
      plan.key_buffers = 2;
      plan.resident = false;
      add(plan);
      plan.resident = true;
      for (; plan.key_buffers > 0; --plan.key_buffers) add(plan);
    }
  }

  /// Adds plans that split the keys over idle cores, if one tile contains all queries and all queries see all keys.
  void add_splits(AttentionPlan plan) {
    const std::int64_t units = p_.batch * p_.key_heads * ceil_div(p_.shared(), plan.heads);
    const std::int64_t tiles = ceil_div(p_.keys, plan.keys), cores = machine_.core.count;
    if (plan.queries < p_.queries || p_.hides() || units >= cores) return;
    for (std::int64_t splits = 2; splits <= tiles && splits < 2 * cores; ++splits) {
      plan.splits = splits;
      if (ceil_div(tiles, plan.split_tiles(p_)) != splits || (splits > 4 && units * splits > 2 * cores)) continue;
      plan.merged_heads = std::clamp<std::int64_t>(p_.batch * p_.heads / cores, 1, p_.heads);
      const std::int64_t merged = 2 * plan.merged_heads * p_.queries * (splits + 1) * (p_.width + 3) * 4;
      if (merged + merged / 4 <= machine_.core.scratchpad.bytes) add(plan);
    }
  }

  /// Adds the plan, and variants with several consecutive key heads per core.
  void add(AttentionPlan plan) {
    if (!pricing_.fill(plan)) return;
    add_products(plan);
    if (plan.splits > 1 || plan.heads < p_.shared() || plan.per_part * plan.queries < p_.queries) return;
    for (std::int64_t trips = 1; trips < p_.key_heads; trips *= 2) {
      plan.groups = ceil_div(p_.key_heads, trips);
      add_products(plan);
    }
  }

  void add_products(AttentionPlan plan) {
    const ArraySpec& array = machine_.core.array;
    // With few rows, distributing them over arrays would not shorten products.
    const bool few = array.count > 1 && plan.rows() < array.rows * array.count;
    // Masks and stored parts have the layout of memory, which rows along the lanes would change.
    const bool turns = plan.rows() >= machine_.core.vector.lanes && !p_.mask && plan.splits == 1;
    for (int choice = 0; choice < (turns ? 16 : 8); ++choice) {
      plan.queries_stay = choice % 2 > 0;
      plan.by_product = choice / 2 % 2 > 0;
      plan.folds = choice / 4 % 2 > 0;
      plan.turned = choice / 8 > 0;
      if ((plan.folds && !p_.power_of_two) || (plan.by_product && !few)) continue;
      plan.cycles = std::max(least_attention_cycles(p_, plan, machine_), pricing_.memory_cycles(plan));
      plans_.push_back(plan);
    }
  }

  const AttentionProblem& p_;
  const Share& machine_;
  Pricing pricing_;
  std::vector<AttentionPlan> plans_;
};

}  // namespace

std::optional<AttentionPlan> plan_attention(const AttentionProblem& problem, const Share& machine) {
  constexpr double traffic_weight = 0.05;  // relative weight of memory traffic, which may delay other kernels
  constexpr double as_fast = 0.03;         // tolerance; the walk's error is 0.6 % in the median, at most 18 %
  const auto fewest = [](const auto& walked) {
    std::int64_t bytes = INT64_MAX;
    for (const auto& one : walked) bytes = std::min(bytes, one.second->bytes);
    return bytes;
  };
  const Pricing pricing(problem, machine);
  std::vector<AttentionPlan> plans = Candidates(problem, machine).list();
  const auto traffic = [&](const AttentionPlan& plan) { return traffic_weight * pricing.memory_cycles(plan); };
  std::ranges::stable_sort(plans, {}, [&](const AttentionPlan& plan) { return plan.cycles + traffic(plan); });
  std::vector<std::pair<double, const AttentionPlan*>> walked;
  double least = INFINITY;
  for (AttentionPlan& plan : plans) {
    if (plan.cycles + traffic(plan) >= (1 + as_fast) * least) break;
    if (plan.cycles + traffic(plan) >= least && plan.bytes >= fewest(walked)) continue;
    plan.cycles = std::max(plan.cycles, walked_attention_cycles(problem, plan, machine));
    walked.emplace_back(plan.cycles + traffic(plan), &plan);
    least = std::min(least, walked.back().first);
  }
  // Of the plans with about equal times, take the one with the least traffic; ties prefer the fastest.
  std::erase_if(walked, [&](const auto& one) { return one.first > (1 + as_fast) * least; });
  const auto best =
      std::ranges::min_element(walked, {}, [](const auto& one) { return std::pair(one.second->bytes, one.first); });
  return best == walked.end() ? std::nullopt : std::optional(*best->second);
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
  const double pages = p.page > 0 ? 2 * groups * static_cast<double>(p.keys * (p.depth + p.width)) * size : 0;
  const double mask = p.mask ? scores * static_cast<double>(host_bytes(*p.mask)) : 0;
  return std::max(product_cycles(p.stored, p.depth, p.keys), (ends(p.depth) + scores * wide) / rate) +
         std::max(static_cast<double>(softmax.busy) * groups / cores, (2 * scores * wide + mask) / rate) +
         std::max(product_cycles(DType::f32, p.keys, p.width), (ends(p.width) + scores * wide) / rate) + pages / rate +
         3 * static_cast<double>(machine.core.kernel_launch_cycles);
}

}  // namespace tilesim::mapping
