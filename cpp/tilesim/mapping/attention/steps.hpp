// The steps of an attention kernel: latencies of its computes, and the tiles of the busiest core.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "tilesim/base/shape.hpp"
#include "tilesim/mapping/attention/computes.hpp"
#include "tilesim/mapping/attention/plan.hpp"
#include "tilesim/tile/compute.hpp"
#include "tilesim/tile/latency.hpp"

namespace tilesim::mapping {

/// One tile of keys for one tile of queries.
struct AttentionStep {
  std::int64_t rows = 0, keys = 0, tile = 0;
  bool masked = false, fresh = true;
  bool as(const AttentionStep& other) const {
    return rows == other.rows && keys == other.keys && masked == other.masked && fresh == other.fresh;
  }
};

/// Latencies of the kernel's tile computes.
class AttentionUnits {
 public:
  AttentionUnits(const AttentionProblem& problem, const AttentionPlan& plan, const Share& machine)
      : p_(problem), plan_(plan), machine_(machine) {}

  TileLatency scores(const AttentionStep& s, bool follows) const {
    return product({ceil_div(s.rows, scorers()), p_.depth, s.keys}, follows, false);
  }
  TileLatency sums(const AttentionStep& s, bool follows) const {
    const std::int64_t summers = arrays() - (plan_.by_product ? scorers() : 0);
    return product({ceil_div(s.rows, summers), s.keys, p_.width}, follows, true);
  }
  /// The maximum score per row, including changes of the scores.
  TileLatency largest(const AttentionStep& s) const {
    std::array<std::int32_t, 4> f{1, 0, 0, 0};
    if (changes(s)) {
      f[1] += (scaled() ? 1 : 0) + (p_.caps ? 1 : 0);
      if (p_.caps) f[2] += 1, f[3] += 1;
      const std::int32_t limits = s.masked ? p_.causal + (p_.window > 0) : 0;
      if (limits > 0) f[0] += 2 + 3 * limits + (limits > 1), f[2] += plan_.heads > 1 ? limits : 0;
      if (p_.mask) f[0] += *p_.mask != DType::boolean || limits > 0;
      if (limits > 0 || p_.mask == DType::boolean) f[0] += 1;
    }
    return vector(Which::largest, f, 1, s.rows, s.keys, [&] { return largest_pattern(s); });
  }
  TileLatency rows(const AttentionStep& s) const {
    const bool scales = scaled() && !changes(s);
    return vector(Which::rows, {4, 1 + (scales ? 1 : 0), 0, 1}, 0, 1, s.rows, [&] { return rows_pattern(scales); });
  }
  TileLatency weights(const AttentionStep& s) const {
    const bool scales = scaled() && !changes(s);
    return vector(Which::weights, {2, scales ? 1 : 0, 0, 1}, 1, s.rows, s.keys, [&] {
      AttentionCompute each;
      int x = each.input(AttentionCompute::by_both);
      const int by = each.input(AttentionCompute::by_row);
      if (scales) x = each.apply(Function::multiply, x, each.number());
      const int weight = each.apply(Function::exp, each.apply(Function::subtract, x, by));
      each.output(weight, p_.stored), each.reduced(weight, Combiner::add, true);
      return each.pattern();
    });
  }
  TileLatency rescale(std::int64_t rows) const {
    return vector(Which::rescale, {0, 1, 0, 0}, 0, rows, p_.width, [&] {
      AttentionCompute each;
      const int old = each.input(AttentionCompute::by_both), factor = each.input(AttentionCompute::by_row);
      each.output(each.apply(Function::multiply, old, factor));
      return each.pattern();
    });
  }
  TileLatency first_rows(std::int64_t rows) const {
    return vector(Which::first_rows, {0, 0, 0, 0}, 0, 1, rows, [] {
      AttentionCompute each;
      each.output(each.number()), each.output(each.number());
      return each.pattern();
    });
  }
  TileLatency first_sums(std::int64_t rows) const {
    return vector(Which::first_sums, {0, 0, 0, 0}, 0, rows, p_.width, [] {
      AttentionCompute each;
      each.output(each.number());
      return each.pattern();
    });
  }
  TileLatency scale_queries(std::int64_t rows) const {
    return vector(Which::queries, {0, 1, 0, 0}, 0, rows, p_.depth, [&] {
      AttentionCompute each;
      const int x = each.input(AttentionCompute::by_both, p_.stored);
      each.output(each.apply(Function::multiply, x, each.number()), p_.stored);
      return each.pattern();
    });
  }
  /// Cycles that merging the key parts of this many rows takes.
  double merged(std::int64_t rows) const {
    const std::int64_t all = rows * plan_.splits;
    const auto none = [] { return VectorPattern{}; };
    return static_cast<double>(vector(Which::merged, {1, 0, 0, 0}, 0, plan_.splits, rows, none).done +
                               vector(Which::merged, {4, 1, 0, 1}, 0, plan_.splits, rows, none).done +
                               vector(Which::merged, {1, 1, 0, 0}, 0, all, p_.width, none).done + divided(rows).done);
  }
  TileLatency end(std::int64_t rows) const {
    if (plan_.splits == 1) return divided(rows);
    return vector(Which::parts, {0, 0, 0, 0}, 0, rows, p_.width, [&] {
      AttentionCompute each;
      each.output(each.input(AttentionCompute::by_both));
      return each.pattern();
    });
  }

 private:
  /// Cached latencies. A kernel has about twelve different computes in thousands of steps, mostly in the same sequence.
  class LatencyCache {
   public:
    using Key = std::array<std::int64_t, 8>;
    template <class Compute>
    const TileLatency& get(const Key& key, const Compute& compute) {
      for (std::size_t i = 0; i < latencies_.size(); ++i) {
        if (++last_ >= latencies_.size()) last_ = 0;
        if (latencies_[last_].first == key) return latencies_[last_].second;
      }
      last_ = latencies_.size();
      return latencies_.emplace_back(key, compute()).second;
    }

   private:
    std::size_t last_ = 0;
    std::vector<std::pair<Key, TileLatency>> latencies_;
  };

  bool scaled() const { return p_.scaled && !plan_.folds; }
  bool changes(const AttentionStep& s) const { return p_.reshapes || s.masked; }
  std::int64_t arrays() const { return machine_.core.array.count; }
  std::int64_t scorers() const { return plan_.by_product ? arrays() / 2 : arrays(); }
  /// `extents`: rows, contracted dim, columns.
  TileLatency product(std::array<std::int64_t, 3> extents, bool follows, bool adds) const {
    if (plan_.turned) std::swap(extents[0], extents[2]);
    return latencies_.get({extents[0], extents[1], extents[2], follows, adds, -1, -1, -1}, [&] {
      ProductDims dims;
      dims.a = dims.b = p_.stored;
      dims.stationary_a = plan_.queries_stay != plan_.turned;
      dims.accumulate = adds;
      return array_latency(machine_, product_descriptor(dims, machine_.layout, [&](int i) { return extents[i]; }),
                           {false, follows});
    });
  }
  enum class Which : std::uint8_t {
    largest,
    rows,
    weights,
    rescale,
    first_rows,
    first_sums,
    queries,
    merged,
    parts,
    divided
  };
  TileLatency divided(std::int64_t rows) const {
    return vector(Which::divided, {2, 0, 1, 0}, 0, rows, p_.width, [&] {
      AttentionCompute each;
      const int sum = each.input(AttentionCompute::by_both), weight = each.input(AttentionCompute::by_row);
      const int unseen = each.apply(Function::equal, each.input(AttentionCompute::by_row), each.number());
      const int mean = each.apply(Function::divide, sum, weight);
      each.output(each.apply(Function::select, unseen, each.number(), mean), p_.stored);
      return each.pattern();
    });
  }
  VectorPattern largest_pattern(const AttentionStep& s) const {
    AttentionCompute each;
    int x = each.input(AttentionCompute::by_both);
    if (!changes(s)) {
      each.reduced(x, Combiner::maximum, false);
      return each.pattern();
    }
    if (scaled()) x = each.apply(Function::multiply, x, each.number());
    if (p_.caps) {
      const int cap = each.number();
      x = each.apply(Function::multiply, each.apply(Function::tanh, each.apply(Function::divide, x, cap)), cap);
    }
    int seen = -1;
    const int limits = s.masked ? p_.causal + (p_.window > 0) : 0;
    const int key = limits > 0 ? each.position(false) : -1;
    for (int i = 0; i < limits; ++i) {
      const int near = each.apply(Function::less_equal, key, each.position(plan_.heads > 1));
      seen = seen < 0 ? near : each.apply(Function::logical_and, seen, near);
    }
    if (p_.mask) {
      const int mask = each.input(AttentionCompute::by_both, *p_.mask);
      if (*p_.mask != DType::boolean)
        x = each.apply(Function::add, x, mask);
      else
        seen = seen < 0 ? mask : each.apply(Function::logical_and, seen, mask);
    }
    if (seen >= 0) x = each.apply(Function::select, seen, x, each.number());
    each.output(x), each.reduced(x, Combiner::maximum, false);
    return each.pattern();
  }
  /// Pattern of the compute with rows along the lanes.
  VectorPattern rows_pattern(bool scales) const {
    AttentionCompute each;
    const auto row = [&] { return each.input(AttentionCompute::by_column); };
    const int before = row(), sum = row();
    int best = row();
    if (scales) best = each.apply(Function::multiply, best, each.number());
    const int now = each.apply(Function::maximum, before, best);
    const int none = each.apply(Function::equal, now, each.number());
    const int shift = each.apply(Function::select, none, each.number(), now);
    const int factor = each.apply(Function::exp, each.apply(Function::subtract, before, shift));
    for (const int node : {now, shift, factor}) each.output(node);
    each.output(each.apply(Function::multiply, sum, factor));
    return each.pattern();
  }
  template <class Pattern>
  TileLatency vector(Which which, const std::array<std::int32_t, 4>& functions, std::int64_t reductions,
                     std::int64_t rows, std::int64_t columns, const Pattern& pattern) const {
    const auto& f = functions;
    const bool turned = plan_.turned && (which == Which::largest || which == Which::weights ||
                                         which == Which::rescale || which == Which::first_sums);
    return latencies_.get({rows, columns, f[0], f[1], f[2], f[3], reductions, static_cast<std::int64_t>(which)}, [&] {
      VectorWork work;
      work.functions = functions;
      work.lane_reductions = turned ? 0 : reductions;
      work.pattern = pattern();
      const std::int64_t extents[] = {rows, columns};
      const int lane = turned ? 0 : -1;
      return vector_latency(machine_, vector_descriptor(DType::f32, work, 2, lane, [&](int i) { return extents[i]; }));
    });
  }

  const AttentionProblem& p_;
  const AttentionPlan& plan_;
  const Share& machine_;
  mutable LatencyCache latencies_;
};

/// The tiles of the busiest core: tiles of a part, parts of a trip, and the number of trips.
class AttentionTiles {
 public:
  AttentionTiles(const AttentionProblem& problem, const AttentionPlan& plan, const Share& machine)
      : p_(problem), plan_(plan), trips_(attention_trips(problem, plan, machine.core.count)) {}

  const AttentionTrips& trips() const { return trips_; }
  std::int64_t tiles() const { return ceil_div(p_.queries, plan_.queries); }
  std::int64_t parts() const { return ceil_div(tiles(), plan_.per_part); }
  std::int64_t repeats() const { return trips_.batch * trips_.groups * trips_.heads * trips_.splits; }
  /// The parts of the busiest core, in order.
  std::vector<std::int64_t> own_parts() const {
    const std::int64_t all = plan_.paired ? ceil_div(parts(), 2) : parts();
    std::vector<std::int64_t> best;
    double most = -1;
    for (std::int64_t first = 0; first < all; first += trips_.parts) {
      std::vector<std::int64_t> own;
      double work = 0;
      const auto take = [&](std::int64_t part) { own.push_back(part), work += this->work(part); };
      for (std::int64_t i = first; i < std::min(all, first + trips_.parts); ++i) {
        take(i);
        if (plan_.paired && parts() - 1 - i > i) take(parts() - 1 - i);
      }
      if (work > most) most = work, best = std::move(own);
      if (!p_.hides()) break;  // all cores except the last have equal work
    }
    return best;
  }
  std::int64_t first_tile(std::int64_t part) const { return part * plan_.per_part; }
  std::int64_t end_tile(std::int64_t part) const { return std::min(tiles(), (part + 1) * plan_.per_part); }
  std::int64_t queries(std::int64_t tile) const { return std::min(plan_.queries, p_.queries - tile * plan_.queries); }
  std::int64_t rows(std::int64_t tile) const { return plan_.heads * queries(tile); }

  KeyTiles seen(std::int64_t tile) const {
    KeyTiles range = seen_tiles(p_, plan_.keys, tile * plan_.queries, queries(tile));
    if (plan_.splits > 1) range.end = std::min(range.end, range.begin + plan_.split_tiles(p_));
    return range;
  }
  AttentionStep step(std::int64_t tile, std::int64_t key_tile) const {
    const std::int64_t first = tile * plan_.queries, count = queries(tile), start = key_tile * plan_.keys;
    AttentionStep step{rows(tile), std::min(plan_.keys, p_.keys - start), key_tile, false, true};
    if (p_.causal && first + p_.offset < start + step.keys - 1) step.masked = true;
    if (p_.window > 0 && start <= first + count + p_.offset - p_.window - 1) step.masked = true;
    if (p_.hides() && plan_.heads == 1) {
      const SeenRows seen = seen_rows(p_, first, count, start, step.keys);
      step.rows = seen.to - seen.from;
    }
    if (plan_.resident && tile % plan_.per_part > 0)
      step.fresh = p_.causal && key_tile >= seen_before(tile * plan_.queries);
    return step;
  }

 private:
  double work(std::int64_t part) const {
    std::int64_t steps = 0;
    for (std::int64_t tile = first_tile(part); tile < end_tile(part); ++tile) {
      const KeyTiles range = seen(tile);
      steps += rows(tile) * std::max<std::int64_t>(0, range.end - range.begin) + rows(tile);
    }
    return static_cast<double>(steps);
  }
  std::int64_t seen_before(std::int64_t first) const {
    return ceil_div(std::clamp<std::int64_t>(first + p_.offset, 0, p_.keys), plan_.keys);
  }

  const AttentionProblem& p_;
  const AttentionPlan& plan_;
  AttentionTrips trips_;
};

}  // namespace tilesim::mapping
