#include "tilesim/mapping/attention/walk.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "tilesim/base/shape.hpp"
#include "tilesim/mapping/attention/steps.hpp"

namespace tilesim::mapping {

namespace {

/// Queues and rings of one core; times are in cycles.
class AttentionQueues {
 public:
  AttentionQueues(const AttentionProblem& problem, const AttentionPlan& plan, const Share& machine)
      : p_(problem), plan_(plan), machine_(machine), units_(problem, plan, machine), tiles_(problem, plan, machine) {
    const auto hertz = static_cast<double>(machine.core.clock.hertz);
    const auto ratio = hertz / static_cast<double>(machine.network.clock.hertz);
    const DmaSpec& dma = machine.core.dma;
    const auto cores = static_cast<double>(tiles_.trips().cores);
    one_way_ = static_cast<double>(machine.network.latency_cycles) * ratio;
    latency_ = static_cast<double>(machine.memory.latency_ps) * 1e-12 * hertz;
    const double all = static_cast<double>(machine.memory.bytes_per_second) * machine.memory.efficiency / hertz *
                       static_cast<double>(machine.core.count);
    rate_ = std::min(all / cores, static_cast<double>(machine.network.port_bytes_per_cycle) / ratio);
    if (const auto regions = static_cast<double>(machine.memory.regions); regions > 1) {
      const double link = static_cast<double>(machine.network.region_bytes_per_cycle) / ratio;
      rate_ = std::min(rate_, link * regions / (regions - 1) / std::max(1.0, cores / regions));
      one_way_ += static_cast<double>(machine.network.region_latency_cycles) * ratio;
    }
    dma_ = static_cast<double>(dma.bytes_per_cycle);
    chunk_ = std::max<std::int64_t>(16384, machine.memory.interleave_bytes * machine.memory.channels);
    chunk_ = std::max<std::int64_t>(1, std::min(chunk_, dma.outstanding_bytes));
    alone_ = dma.outstanding_bytes < 2 * chunk_;
    queues_ = std::max<std::int64_t>(1, dma.load_queues);
    size_ = static_cast<double>(host_bytes(p_.stored));
  }

  double run() {
    const std::vector<std::int64_t> parts = tiles_.own_parts();
    keys_held_.assign(static_cast<std::size_t>(ceil_div(p_.keys, plan_.keys)), 0);
    values_held_ = keys_held_;
    repeat(tiles_.repeats(), [&] {
      for (const std::int64_t part : parts) walk_part(part, std::min(plan_.groups, p_.key_heads));
    });
    if (plan_.splits > 1) merge();
    return *std::max_element(t_.begin(), t_.end()) + static_cast<double>(machine_.core.kernel_launch_cycles);
  }

 private:
  enum Time : std::uint8_t {
    load0,
    load1,
    store,
    memory_reads,  ///< end of the loads that memory serves
    write_begin,   ///< begin of the last store that memory accepted
    write_end,
    array,
    array_of_sums,
    vector,
    finish,
    queries_ready,
    rows_begun,
    weights_done,
    values_ready,
    rescaled,
    sums_done,
    scores_done,
    q_ring = scores_done + 2,
    y_ring = q_ring + 2,
    k_ring = y_ring + 2,
    v_ring = k_ring + 2,
    s_ring = v_ring + 2,
    p_ring = s_ring + 2,
    mask_ring = p_ring + 2,
    times = mask_ring + 2
  };
  using Times = std::array<double, times>;
  double& ring(Time first, std::int64_t version, std::int64_t depth = 2) {
    return t_[static_cast<std::size_t>(first) + static_cast<std::size_t>(version % depth)];
  }

  /// The step that merges split keys starts when all parts are stored.
  void merge() {
    t_.fill(*std::max_element(t_.begin(), t_.end()) + one_way_);
    const std::int64_t tiles = p_.batch * ceil_div(p_.heads, plan_.merged_heads);
    const auto rows = plan_.merged_heads * p_.queries;
    const auto bytes = static_cast<double>(rows * 4);
    for (std::int64_t i = 0; i < ceil_div(tiles, machine_.core.count); ++i) {
      const auto splits = static_cast<double>(plan_.splits);
      double wanted = 0;
      for (int j = 0; j < 2; ++j) wanted = std::max(wanted, transfer(load_queue(j), 0, splits * bytes, false));
      wanted = std::max(wanted, transfer(load_queue(0), 0, splits * bytes * static_cast<double>(p_.width), false));
      t_[vector] = std::max(t_[vector], wanted) + units_.merged(rows);
      transfer(store, t_[vector], static_cast<double>(rows * p_.width) * size_, true);
    }
  }

  /// Calls `body` `count` times. Once two calls advance all times equally, extrapolates the remaining calls.
  template <class Body>
  void repeat(std::int64_t count, const Body& body) {
    std::int64_t done = 0, pairs = 0;
    double before = 0;
    while (count - done >= 4) {
      const Times old = t_;
      body(), body();
      done += 2;
      double least = INFINITY, most = 0;
      for (std::size_t i = 0; i < t_.size(); ++i)
        if (t_[i] != old[i]) least = std::min(least, t_[i] - old[i]), most = std::max(most, t_[i] - old[i]);
      const bool steady = most - least < 1e-6 * most + 1e-9;
      const bool even = ++pairs > 4 && std::abs(most - before) < 1e-3 * most;
      before = most;
      if (!steady && !even && pairs < 12) continue;
      const auto rest = static_cast<double>((count - done) / 2);
      for (std::size_t i = 0; i < t_.size(); ++i)
        if (t_[i] != old[i]) t_[i] += rest * most;
      done += (count - done) / 2 * 2;
    }
    for (; done < count; ++done) body();
  }

  /// Memory serves one transfer at a time. A store is recorded before loads that begin earlier; a load that overlaps
  /// the store waits, or takes longer by the store's cycles.
  void serve(double arrival, double cycles, bool write) {
    if (write) {
      t_[write_begin] = std::max(arrival, t_[write_end]);
      t_[write_end] = t_[write_begin] + cycles;
      if (t_[memory_reads] > t_[write_begin]) t_[memory_reads] += cycles;
      return;
    }
    double begin = std::max(t_[memory_reads], arrival);
    if (begin >= t_[write_begin] && begin < t_[write_end]) begin = t_[write_end];
    const bool meets = begin < t_[write_begin] && begin + cycles > t_[write_begin];
    t_[memory_reads] = begin + cycles + (meets ? t_[write_end] - t_[write_begin] : 0);
  }

  /// Returns the end of a transfer that may begin at `wanted`.
  double transfer(Time queue, double wanted, double bytes, bool write) {
    double& free = t_[queue];
    const double begin = std::max(free, wanted) + static_cast<double>(machine_.core.dma.issue_cycles);
    const double way = latency_ + one_way_ * (write ? 1 : 2);
    double& busy = t_[write ? write_end : memory_reads];
    double done = 0;
    if (alone_) {  // one request at a time
      double left = bytes, now = begin;
      const auto whole = static_cast<double>(chunk_);
      if (const double many = std::floor(left / whole) - 2; many > 0) {
        const double each = std::max(whole / rate_ + way, whole / dma_);
        now += many * each, left -= many * whole;
      }
      for (; left > 0; left -= whole) {
        serve(now + one_way_, std::min(left, whole) / rate_, write);
        now = std::max(busy - one_way_ + way, now + std::min(left, whole) / dma_);
      }
      done = free = now;
    } else {
      serve(begin + one_way_, bytes / rate_, write);
      const double flying = static_cast<double>(machine_.core.dma.outstanding_bytes) / rate_;
      done = std::max(busy - one_way_ + way, begin + bytes / dma_);
      free = std::max(begin + bytes / dma_, busy - one_way_ - flying);
    }
    done += static_cast<double>(machine_.core.dma.latency_cycles);
    t_[finish] = std::max(t_[finish], done);
    return done;
  }
  Time load_queue(std::int64_t number) const {
    return number % std::min<std::int64_t>(2, queues_) == 0 ? load0 : load1;
  }

  double compute(Time unit, double wanted, const TileLatency& latency) {
    const double begin = std::max(t_[unit], wanted);
    t_[unit] = begin + static_cast<double>(latency.busy);
    return begin + static_cast<double>(latency.done);
  }
  /// A product on the arrays. If it follows another product immediately, the pipeline is still filled.
  template <class Latency>
  double multiply(Time unit, double wanted, const Latency& latency) {
    const double begin = std::max(t_[unit], wanted);
    return compute(unit, begin, latency(begin == t_[unit] && begin > 0));
  }
  Time summers() const { return plan_.by_product ? array_of_sums : array; }

  double load_keys(const AttentionStep& s, Time slots, std::int64_t version, std::int64_t head, Time queue,
                   std::int64_t width, std::vector<double>& held) {
    const double bytes = static_cast<double>(s.keys * width) * size_;
    const std::int64_t pages = p_.page > 0 ? ceil_div(s.keys, p_.page) : 1;
    if (!plan_.resident) return load_pages(queue, ring(slots, version, plan_.key_buffers), bytes, pages);
    double& here = held[static_cast<std::size_t>(s.tile)];
    if (s.fresh) here = load_pages(queue, ring(slots, head, plan_.key_buffers), bytes, pages);
    return here;
  }
  /// Loads pages, one transfer per page.
  double load_pages(Time queue, double wanted, double bytes, std::int64_t pages) {
    const double each = bytes / static_cast<double>(pages);
    repeat(pages - 1, [&] { transfer(queue, wanted, each, false); });
    return transfer(queue, wanted, each, false);
  }

  void scores(const AttentionStep& s) {
    const std::int64_t version = scores_++;
    const double keys = load_keys(s, k_ring, version, heads_begun_, load_queue(0), p_.depth, keys_held_);
    const double wanted = std::max({keys, t_[queries_ready], ring(s_ring, version)});
    ring(scores_done, version) = multiply(array, wanted, [&](bool follows) { return units_.scores(s, follows); });
    if (!plan_.resident) ring(k_ring, version, plan_.key_buffers) = t_[array];
  }

  void weights(const AttentionStep& s) {
    const std::int64_t version = weights_++;
    double wanted = std::max({ring(scores_done, version), ring(p_ring, version), t_[rows_begun]});
    if (p_.mask) {
      const double bytes = static_cast<double>(p_.mask_elements(plan_.heads, s.rows, s.keys) * host_bytes(*p_.mask));
      wanted = std::max(wanted, transfer(load_queue(1), ring(mask_ring, version), bytes, false));
    }
    const double largest = compute(vector, wanted, units_.largest(s));
    const double rows = compute(vector, largest, units_.rows(s));
    t_[weights_done] = compute(vector, rows, units_.weights(s));
    ring(s_ring, version) = ring(mask_ring, version) = t_[vector];
    t_[rescaled] = compute(vector, t_[sums_done], units_.rescale(s.rows));
  }

  void load_values(const AttentionStep& s) {
    t_[values_ready] = load_keys(s, v_ring, sums_, heads_ended_, load_queue(1), p_.width, values_held_);
  }
  void sums(const AttentionStep& s) {
    const std::int64_t version = sums_++;
    const double wanted = std::max({t_[values_ready], t_[weights_done], t_[rescaled]});
    t_[sums_done] = multiply(summers(), wanted, [&](bool follows) { return units_.sums(s, follows); });
    ring(p_ring, version) = t_[summers()];
    if (!plan_.resident) ring(v_ring, version, plan_.key_buffers) = t_[summers()];
  }

  void begin(std::int64_t tile) {
    const double bytes = static_cast<double>(tiles_.rows(tile) * p_.depth) * size_;
    t_[queries_ready] = transfer(load_queue(0), ring(q_ring, tiles_begun_++), bytes, false);
    if (plan_.folds) t_[queries_ready] = compute(vector, t_[queries_ready], units_.scale_queries(tiles_.rows(tile)));
    const KeyTiles seen = tiles_.seen(tile);
    if (p_.all_see()) scores(tiles_.step(tile, seen.begin));
  }

  /// Walks a query tile. The next tile (-1: none) begins before this tile's last sums.
  void walk_tile(std::int64_t tile, std::int64_t next) {
    const std::int64_t rows = tiles_.rows(tile), version = tiles_done_++;
    t_[rows_begun] = compute(vector, 0, units_.first_rows(rows));
    t_[sums_done] = compute(vector, 0, units_.first_sums(rows));
    const KeyTiles seen = tiles_.seen(tile);
    const bool some = seen.end > seen.begin, ends = (tile + 1) % plan_.per_part == 0 || tile + 1 == tiles_.tiles();
    if (some && !p_.all_see()) scores(tiles_.step(tile, seen.begin));
    if (some) walk_keys(tile, seen);
    if (some && !p_.all_see()) sums(tiles_.step(tile, seen.end - 1));
    ring(q_ring, version) = t_[array];
    if (plan_.resident && ends) ring(k_ring, heads_begun_++, plan_.key_buffers) = t_[array];
    if (next >= 0) begin(next);
    if (p_.all_see()) sums(tiles_.step(tile, seen.end - 1));
    if (plan_.resident && ends) ring(v_ring, heads_ended_++, plan_.key_buffers) = t_[summers()];
    const double wanted = std::max(t_[sums_done], ring(y_ring, version));
    const double end = compute(vector, wanted, units_.end(rows));
    const double wide = plan_.splits > 1 ? 4 : size_;
    ring(y_ring, version) = transfer(store, end, static_cast<double>(rows * p_.width) * wide, true);
    if (p_.lse && plan_.splits == 1)
      transfer(store, compute(vector, wanted, units_.rows({rows, 1})), static_cast<double>(rows) * 4, true);
    if (plan_.splits > 1)
      for (int i = 0; i < 2; ++i) transfer(store, end, static_cast<double>(rows) * 4, true);
  }

  /// Walks all key tiles, without the sums of the last one.
  void walk_keys(std::int64_t tile, const KeyTiles& seen) {
    const std::int64_t last = seen.end - 1;
    const auto turn = [&](const AttentionStep& step, const AttentionStep& next) {
      weights(step), scores(next), load_values(step), sums(step);
    };
    for (std::int64_t i = seen.begin; i < last;) {
      const AttentionStep step = tiles_.step(tile, i);
      std::int64_t alike = i, beyond = seen.end;  // index of the last equal step, by bisection
      while (beyond - alike > 1) {
        const std::int64_t middle = (alike + beyond) / 2;
        (tiles_.step(tile, middle).as(step) ? alike : beyond) = middle;
      }
      repeat(alike - i, [&] { turn(step, step); });
      i = alike;
      if (i < last) turn(step, tiles_.step(tile, i + 1)), ++i;
    }
    const AttentionStep step = tiles_.step(tile, last);
    weights(step), load_values(step);
  }

  void walk_head(std::int64_t first, std::int64_t end, bool last) {
    const std::int64_t follows = last ? -1 : first;
    std::int64_t tile = first;
    if (!p_.hides() && end - first > 4) {
      walk_tile(tile++, first + 1);
      repeat(end - first - 3, [&] { walk_tile(first + 1, first + 1); });
      tile = end - 2;
    }
    for (; tile < end; ++tile) walk_tile(tile, tile + 1 < end ? tile + 1 : follows);
  }

  void walk_part(std::int64_t part, std::int64_t groups) {
    const std::int64_t first = tiles_.first_tile(part), end = tiles_.end_tile(part);
    begin(first);
    repeat(groups - 1, [&] { walk_head(first, end, false); });
    walk_head(first, end, true);
  }

  const AttentionProblem& p_;
  const AttentionPlan& plan_;
  const Share& machine_;
  AttentionUnits units_;
  AttentionTiles tiles_;
  Times t_{};
  double one_way_ = 0, latency_ = 0, rate_ = 1, dma_ = 1, size_ = 4;
  std::int64_t chunk_ = 1, queues_ = 1;
  bool alone_ = false;  ///< a queue has only one request in flight
  std::int64_t scores_ = 0, weights_ = 0, sums_ = 0, tiles_begun_ = 0, tiles_done_ = 0, heads_begun_ = 0,
               heads_ended_ = 0;
  std::vector<double> keys_held_, values_held_;
};

}  // namespace

double least_attention_cycles(const AttentionProblem& problem, const AttentionPlan& plan, const Share& machine) {
  const AttentionUnits units(problem, plan, machine);
  const AttentionTiles tiles(problem, plan, machine);
  double arrays = 0, vectors = 0;
  for (const std::int64_t part : tiles.own_parts())
    for (std::int64_t tile = tiles.first_tile(part); tile < tiles.end_tile(part); ++tile) {
      const KeyTiles seen = tiles.seen(tile);
      if (seen.end <= seen.begin) continue;
      const AttentionStep step = tiles.step(tile, seen.begin);
      const std::int64_t border =
          problem.hides() ? 2 + ceil_div(plan.queries, plan.keys) * (problem.window > 0 ? 2 : 1) : 1;
      const auto count = static_cast<double>(std::max<std::int64_t>(0, seen.end - seen.begin - border));
      const std::int64_t scores = units.scores(step, true).busy, sums = units.sums(step, true).busy;
      arrays += count * static_cast<double>(plan.by_product ? std::max(scores, sums) : scores + sums);
      vectors += count * static_cast<double>(units.largest({step.rows, step.keys}).busy + units.weights(step).busy +
                                             units.rescale(step.rows).busy);
    }
  return std::max(arrays, vectors) * static_cast<double>(tiles.repeats() * plan.groups);
}

double walked_attention_cycles(const AttentionProblem& problem, const AttentionPlan& plan, const Share& machine) {
  return AttentionQueues(problem, plan, machine).run();
}

}  // namespace tilesim::mapping
