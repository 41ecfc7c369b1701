// Initiation interval of a vector compute's kernel, and the time of all its iterations.
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "tilesim/tile/latency/kernel_shape.hpp"

namespace tilesim {

namespace at_place = vector_count;

/// Registers that values take at this initiation interval.
double KernelShape::registers(double interval) const {
  double taken = lives_ / interval + waiting_;
  if (steps_ == 1) return taken;
  const double block = static_cast<double>(f_.block), steps = steps_;
  const double ahead = rounded_down(((steps - 1) * block * interval + group_life_) / (steps * block * interval));
  taken += group_values_ * std::min(block * (ahead + 1), static_cast<double>(f_.groups));
  const double in_step = rounded_down(((block - 1) * interval + u_.load_latency) / (block * interval)) + 1;
  return taken + step_values_ * in_step;
}

/// The initiation interval at which registers suffice; 0: too few at any interval.
double KernelShape::pace_by_registers(double least) const {
  double free = static_cast<double>(32 >> lmul_) - 1 - hoisted_ - count_of(at_place::constants);
  if (ragged_ || lanes_at_end_) free -= outputs_;
  const double live = count_of(at_place::live) + (widens_ ? 1 : 0);
  const double length = (count_of(at_place::chain) + 4) * u_.latency + 4 * full_ * pass_;
  constexpr double turns = 8;  // limit on register sets of a value
  const double longest = count_of(at_place::longest) * u_.latency + 1;
  for (double interval = std::max(least, 1 / u_.issue); interval <= 2 * length + least;
       interval += std::max(1 / u_.issue, rounded_down(interval * u_.issue / 8) / u_.issue))
    if (std::max(registers(interval), live) <= free && longest <= turns * interval) return interval;
  return 0;
}

bool KernelShape::fits() {
  lay();
  if (lmul_ > 0 && f_.groups == 1 && f_.last_rows <= rows_ << (lmul_ - 1)) return false;
  if (!may_join()) return false;
  load(), compute(), store(), combine();
  return find_pace();
}

bool KernelShape::find_pace() {
  const auto groups = static_cast<double>(f_.groups), n = groups * steps_;
  front_ = (instructions_ + 2 * n + 8 + before_ + 3 * count_of(at_place::constants)) / u_.width;
  apart_ = beats(each(), 0) * static_cast<double>(d_.custom.apart) / 1000;
  const double carried = combines_ && steps_ > 1 ? u_.latency / (totals_ * static_cast<double>(f_.block)) : 0;
  const std::pair<double, const char*> paces[] = {{arithmetic_ / n, "vector"},
                                                  {load_ / u_.loads / n, "load port"},
                                                  {store_ / u_.stores / n, "store port"},
                                                  {front_ / n, "front end"},
                                                  {apart_ / n, "own instruction"},
                                                  {carried, "latency"},
                                                  {steps_ == 1 ? crossing_ / n : 0, "cross-lane"}};
  double least = 0;
  for (const auto& [pace, name] : paces)
    if (pace > least) least = pace, limit_ = name;
  const double least_scheduled = std::max({arithmetic_, load_ / u_.loads, store_ / u_.stores, crossing_}) / n;
  regs_ = pace_by_registers(rounded_up(least_scheduled * u_.issue) / u_.issue);
  if (regs_ == 0) return false;
  interval_ = least;
  // if no instructions of an iteration depend on each other, loads are prefetched ahead of the schedule
  const bool waits = count_of(at_place::chain) > 0;
  if (waits && regs_ > rounded_up(least_scheduled * u_.issue) / u_.issue && regs_ > least)
    interval_ = regs_, limit_ = "registers";
  group_pace_ = interval_ * steps_;
  if (crossing_ / groups > group_pace_) group_pace_ = crossing_ / groups, limit_ = "cross-lane";
  return true;
}

/// Cycles of `hops` dependent instructions. One that holds its pipe longer than a result takes delays its dependents.
double KernelShape::chained(double hops) const {
  const double result = std::max(u_.latency, static_cast<double>(d_.custom.latency));
  double cycles = hops * result, left = hops;
  for (std::size_t i = u_.cost.size(); i-- > 0;) {
    const double some = std::min(left, i > 0 ? count_of(at_place::instructions + i) : left);
    cycles += some * std::max(0.0, full_ * u_.cost[i] - result), left -= some;
  }
  return cycles;
}

TileLatency KernelShape::latency() {
  const double groups = static_cast<double>(f_.groups), steps = steps_;
  const double filled = count_of(at_place::known) > 1 ? 1 : 0;  // registers that the first instruction waits for
  const double more = !combines_ ? 0
                                 : (steps_ > 1 ? totals_ : 0) + std::ceil(std::log2(joined_)) + (ragged_ ? 1 : 0) +
                                       (lanes_at_end_ ? 1 : 0) + zeros_;
  const double after = combines_ ? (count_of(at_place::accumulates) > 0 ? 1 : 0) + narrows_totals_ : 0;
  const double hops = count_of(at_place::chain) + more;
  const double across = reduces_ * (full_ * pass_ + u_.reduce_latency);
  const double spread = spreads_ ? u_.cross_latency + (full_ - 1) * (pass_ - 1) : 0;
  const double last = full_ * u_.cost[0], fills = count_of(at_place::constants) * full_ * u_.cost[0] / u_.issue;
  // start of the last iteration after the first
  const double follow = (groups - 1) * group_pace_ + (steps - 1 / joined_) * interval_;
  span_ = hops > 0 ? chained(hops + filled - (after > 0 ? 0 : 1)) + (spreads_narrow_ ? spread : 0) : 0;
  if (after > 0) span_ += across + chained(after - 1);
  busy = arithmetic_ > 0 ? follow + span_ + last + fills : follow + interval_;
  // spreads at the start and reductions at the end delay the next kernel
  double crossed = 0;
  if (reduces_ > 0) {
    const double between = (reduces_ - 1) * (u_.reduce_latency + full_ * pass_) + full_ * pass_;
    crossed = between;
    if (spreads_)
      crossed += (groups - 1) * std::max(steps * interval_, spreading_ / groups) + (steps - 1 / joined_) * interval_ +
                 spread + chained(count_of(at_place::spread_chain) + more);
    else
      crossed += (groups - 1) * group_pace_;
  }
  // the front end issues in whole cycles
  const double front = rounded_up(front_);
  busy = std::max({busy, load_ / u_.loads, store_ / u_.stores, crossing_, arithmetic_, apart_, front, crossed});
  const double prologue = (6 + before_ + 3 * count_of(at_place::constants)) / u_.width + 2;
  done = prologue + u_.load_latency + follow +
         std::max(chained(hops), spread + chained(count_of(at_place::spread_chain) + more)) +
         (after > 0 ? chained(after) : 0) + across + full_ * u_.port + 1;
  // a user-defined instruction completes the last register of a group later
  done += (full_ - 1) * static_cast<double>(std::max(d_.custom.shared, d_.custom.apart)) / 1000;
  done = std::max(done, busy + (arithmetic_ > 0 ? u_.load_latency : 0));
  TileLatency found;
  found.busy = std::max<std::int64_t>(1, std::llround(busy));
  found.done = std::max(found.busy, static_cast<std::int64_t>(std::llround(done)));
  found.consumed = found.weights_consumed = found.busy;
  found.first = std::clamp<std::int64_t>(std::llround(done - busy + interval_), 1, found.done);
  found.limit = limit_;
  return found;
}

namespace {

/// Caches shapes: a search requests the same tiles repeatedly.
class ShapeCache {
 public:
  template <class Find>
  const std::optional<TileLatency>& get(const VectorUnits& units, const Descriptor& d, Find find) {
    if (entries_.empty()) entries_.resize(entries);
    CachedShape& entry = entries_[hash(d) % entries];
    const bool same = entry.used && entry.units == units && entry.elements == d.elements &&
                      entry.lane_extent == d.lane_extent && entry.combined == d.combined && entry.custom == d.custom &&
                      entry.moves == d.moves;
    if (!same) entry = {units, d.moves, d.custom, d.elements, d.lane_extent, d.combined, find(), true};
    return entry.latency;
  }

 private:
  static constexpr std::size_t entries = 1024;
  struct CachedShape {
    VectorUnits units;
    VectorMoves moves;
    CustomWork custom;
    std::int64_t elements = 0, lane_extent = 0, combined = 0;
    std::optional<TileLatency> latency;
    bool used = false;
  };
  static std::size_t hash(const Descriptor& d) {
    std::uint64_t hash = 0;
    const auto mix = [&](std::uint64_t value) {
      hash = (hash ^ value) * 0x9E3779B97F4A7C15ULL;
      hash ^= hash >> 29;
    };
    for (const std::int64_t value : {d.elements, d.lane_extent, d.combined}) mix(static_cast<std::uint64_t>(value));
    for (std::size_t i = 0; i < VectorMoves::kinds; i += 4)
      mix(d.moves.counts[i] ^ std::uint64_t{d.moves.counts[i + 1]} << 16 ^ std::uint64_t{d.moves.counts[i + 2]} << 32 ^
          std::uint64_t{d.moves.counts[i + 3]} << 48);
    return static_cast<std::size_t>(hash >> 16);
  }
  std::vector<CachedShape> entries_;
};

std::optional<TileLatency> best_shape(const VectorUnits& units, const Descriptor& d) {
  std::optional<TileLatency> best;
  const bool combines = d.moves.counts[at_place::combines] + d.moves.counts[at_place::combines + 1] > 0;
  const auto tried = [&](int lmul, bool shared, std::int64_t together, int halved = 0) {
    KernelShape shape(units, d, lmul, shared, together, halved);
    if (!shape.fits()) return false;
    const TileLatency found = shape.latency();
    if (!best || found.busy + found.done < best->busy + best->done) best = found;
    return true;
  };
  for (const int lmul : {2, 1, 0}) {
    tried(lmul, false, 1);
    if (!combines && d.combined != 1) tried(lmul, true, 1);
    for (std::int64_t together = combines ? VectorForm::most_together : 1; together > 1; --together)
      if (tried(lmul, false, together)) break;
  }
  // shorter registers, as in kernels (isa/latency/narrower.cpp)
  constexpr std::int64_t few = 8;
  for (int halved = 1; units.rows >> halved > 0 && d.elements <= few * (units.rows >> (halved - 1)) * units.lanes;
       ++halved) {
    tried(0, false, 1, halved);
    for (std::int64_t together = combines ? VectorForm::most_together : 1; together > 1; --together)
      if (tried(0, false, together, halved)) break;
  }
  return best;
}

}  // namespace

std::optional<TileLatency> kernel_latency(const Share& machine, const Descriptor& d) {
  thread_local ShapeCache known;
  const VectorUnits units(machine);
  return known.get(units, d, [&] { return best_shape(units, d); });
}

}  // namespace tilesim
