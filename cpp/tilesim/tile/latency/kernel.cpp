// Closed form of kernels of vector computes (isa/kernel/vector_kernel.cpp): registers of rows follow each other in a
// software pipeline; each takes as long as the busiest of ports, pipes and front end, or as its values need registers.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <vector>

#include "tilesim/base/shape.hpp"
#include "tilesim/tile/latency.hpp"
#include "tilesim/tile/vector_form.hpp"
#include "tilesim/tile/vector_units.hpp"
#include "tilesim/tile/vector_work.hpp"

namespace tilesim {

namespace {

namespace at_place = vector_count;
using Reach = VectorForm::Reach;

constexpr std::size_t reaches = 5, widths = 3;
/// Of numbers that are not negative; quicker than the library's.
double rounded_down(double a) { return static_cast<double>(static_cast<std::int64_t>(a)); }
double rounded_up(double a) {
  const double below = rounded_down(a);
  return below + (a - below > 1e-9 ? 1 : 0);
}

/// One of the shapes that a kernel may have: 2^lmul registers together; `shared`: spread operands follow each other.
class KernelShape {
 public:
  KernelShape(const VectorUnits& units, const Descriptor& d, int lmul, bool shared)
      : u_(units), d_(d), lmul_(lmul), shared_(shared), full_(static_cast<double>(1 << lmul)) {}

  bool fits();  ///< false: longer registers than rows, or too few
  TileLatency latency();
  double busy = 0, done = 0;

 private:
  double of(std::size_t which) const { return static_cast<double>(d_.moves.counts[which]); }
  double beats(double rows, std::size_t width) const {
    static constexpr double bits[] = {32, 16, 8};
    return std::max(1.0, rounded_up(rows * static_cast<double>(u_.lanes) * bits[width] / u_.bits));
  }
  void lay();
  void load();
  void compute();
  void store();
  void combine();
  double registers(double interval) const;
  double chained(double hops) const;
  double pace_by_registers(double least) const;
  bool find_pace();

  /// Of all groups of a kernel, or of all its steps: whole ones and the last, which may have fewer rows.
  struct Times { double whole = 0, last = 0; };
  Times each() const { return {static_cast<double>((f_.groups - 1) * f_.steps), static_cast<double>(f_.steps)}; }
  Times groups() const { return {static_cast<double>(f_.groups - 1), 1}; }
  double beats(const Times& times, std::size_t width) const {
    return times.whole * beats(static_cast<double>(f_.rows), width) +
           times.last * beats(static_cast<double>(f_.last_rows), width);
  }

  const VectorUnits& u_;
  const Descriptor& d_;
  int lmul_;
  bool shared_;
  double full_;  ///< registers of a group
  VectorForm f_;
  bool combines_ = false, ragged_ = false, lanes_at_end_ = false;
  double totals_ = 1, outputs_ = 0, held_ = 0;
  std::array<std::array<double, widths>, reaches> operands_{};
  // of the whole kernel
  double load_ = 0, store_ = 0, arithmetic_ = 0, crossing_ = 0, spreading_ = 0, instructions_ = 0;
  double group_values_ = 0, group_life_ = 0, step_values_ = 0;  ///< that stay; how long, at least
  double lives_ = 0, hoisted_ = 0, before_ = 0;  ///< cycles of values in registers; registers; instructions before
  bool widens_ = false, spreads_ = false, spreads_narrow_ = false;
  double narrows_totals_ = 0;  ///< instructions in front of a store of totals
  double interval_ = 0, group_pace_ = 0, regs_ = 0, span_ = 0, reduces_ = 0, front_ = 0, apart_ = 0;
  const char* limit_ = "";
};

/// Where it lies in registers.
void KernelShape::lay() {
  combines_ = of(at_place::combines) + of(at_place::combines + 1) > 0;
  const std::int64_t outer = d_.elements / std::max<std::int64_t>(1, d_.lane_extent);
  const bool split = combines_ || shared_;
  const std::int64_t combined = split ? d_.combined : 1;
  f_ = VectorForm(d_.lane_extent, outer / std::max<std::int64_t>(1, combined), combined, combines_,
                  d_.moves.counts[at_place::lanes_combined] != 0, u_.lanes, u_.rows << lmul_);
  for (unsigned w = 0; w < 8; ++w) {
    const unsigned where = !split && (w & VectorForm::along_combined) != 0
                               ? (w & ~VectorForm::along_combined) | VectorForm::along_kept
                               : w;
    const auto reach = static_cast<std::size_t>(f_.reach(where));
    for (std::size_t width = 0; width < widths; ++width) operands_[reach][width] += of(at_place::load(w, width));
  }
  outputs_ = of(at_place::combines) + of(at_place::combines + 1);
  held_ = outputs_;
  for (std::size_t width = 0; width < widths; ++width)
    held_ += operands_[static_cast<std::size_t>(Reach::by_group)][width] +
             operands_[static_cast<std::size_t>(Reach::by_row)][width];
  f_.block = std::min(shared_ ? 1 : f_.groups, f_.block_for(static_cast<std::int64_t>(held_), lmul_));
  if (!combines_) return;
  const bool rows = f_.rows_reduced && f_.all_combined() % f_.rows != 0,
             lanes = f_.lane_reduced && d_.lane_extent % u_.lanes != 0;
  lanes_at_end_ = lanes && f_.stretches == 1 && f_.steps > 1;
  ragged_ = rows || (lanes && !lanes_at_end_);
  totals_ = static_cast<double>(f_.totals_for(static_cast<std::int64_t>(u_.latency), lmul_));
}

void KernelShape::load() {
  const double blocks = rounded_up(static_cast<double>(f_.groups) / static_cast<double>(f_.block));
  for (std::size_t r = 0; r < reaches; ++r)
    for (std::size_t width = 0; width < widths; ++width) {
      const double n = operands_[r][width];
      if (n == 0) continue;
      const auto reach = static_cast<Reach>(r);
      const bool narrow = width > 0;
      widens_ |= narrow;
      if (reach == Reach::one || (reach == Reach::by_step && f_.steps == 1)) {
        hoisted_ += n, before_ += n * (narrow ? 3 : 1);
        load_ += n * beats(static_cast<double>(f_.rows), width) * u_.port;
        if (narrow) arithmetic_ += n * full_ * u_.cost[0] / u_.issue;
        continue;
      }
      Times times = reach == Reach::each || f_.steps == 1 ? each() : groups();
      if (reach == Reach::by_step) times = {static_cast<double>(f_.steps) * blocks, 0};
      const double all = times.whole + times.last;
      const bool stays = f_.steps > 1 && reach != Reach::each;  // over the steps of a group, or the groups of a step
      load_ += n * beats(times, width) * u_.port;
      instructions_ += n * all * (narrow ? 5 : 2);
      const bool spread = reach == Reach::by_row;
      const double across = spread ? u_.cross_latency + full_ * (u_.pass - 1) : 0;
      if (narrow || spread || !stays) lives_ += n * u_.load_latency;
      if (narrow && (spread || !stays)) lives_ += n * u_.latency;
      if (spread && !stays) lives_ += n * across;
      if (stays && reach == Reach::by_step) step_values_ += n;
      if (stays && reach != Reach::by_step) {
        group_values_ += n;
        group_life_ = std::max(group_life_, 1 + (spread ? across : narrow ? u_.latency : u_.load_latency));
      }
      if (narrow) arithmetic_ += n * beats(times, 0) * u_.cost[0] / u_.issue;
      if (reach != Reach::by_row) continue;
      spreads_ = true, spreads_narrow_ |= narrow;
      spreading_ += n * beats(times, 0) * u_.pass, instructions_ += n * all;
    }
}

void KernelShape::compute() {
  crossing_ += spreading_;
  double cost = static_cast<double>(d_.own.shared) / 1000, all = 0;
  for (std::size_t i = 0; i < u_.cost.size(); ++i)
    cost += of(at_place::instructions + i) * u_.cost[i], all += of(at_place::instructions + i);
  const double iterations = static_cast<double>(f_.groups * f_.steps);
  arithmetic_ += beats(each(), 0) * cost / u_.issue + iterations * of(at_place::masks) * u_.latency;
  crossing_ += beats(each(), 0) * static_cast<double>(d_.own.crossing) / 1000;
  instructions_ += iterations * all;
  lives_ += of(at_place::lives) * u_.latency + all / u_.issue;
  // what is done sooner waits for the last part of its operand
  for (std::size_t i = 1; i < u_.cost.size(); ++i)
    lives_ += of(at_place::instructions + i) * full_ * std::max(0.0, u_.cost[i] - u_.cost[0]);
}

void KernelShape::store() {
  for (const bool combined : {false, true})
    for (std::size_t kind = 0; kind < 4; ++kind) {
      const double n = of(at_place::store(combined, kind));
      if (n == 0) continue;
      const std::size_t width = std::min(kind, widths - 1);
      const Times times = combined ? groups() : each();
      const double all = times.whole + times.last, changes = kind == 0 ? 0 : kind == 3 ? 2 : 1;
      store_ += n * beats(times, width) * u_.port;
      instructions_ += n * all * (2 + 2 * changes);
      double converted = kind == 0 ? 0 : beats(times, 0);
      if (kind == 3) converted += beats(times, 1);
      arithmetic_ += n * converted * u_.cost[0] / u_.issue;
      if (combined) narrows_totals_ = std::max(narrows_totals_, changes);
      if (!combined) lives_ += n * (changes * u_.latency + beats(static_cast<double>(f_.rows), width) * u_.port);
    }
}

void KernelShape::combine() {
  if (!combines_) return;
  const double cost = of(at_place::combines) * u_.cost[0] + of(at_place::combines + 1) * u_.cost[1];
  const auto groups = static_cast<double>(f_.groups), steps = static_cast<double>(f_.steps);
  const double pass = full_ / u_.issue;
  if (f_.steps > 1) {
    arithmetic_ += beats(each(), 0) * cost / u_.issue + (totals_ - 1) * groups * pass * cost;
    instructions_ += outputs_ * groups * (steps + totals_ - 1);
  }
  if (ragged_) {
    const bool lanes = f_.lane_reduced && d_.lane_extent % u_.lanes != 0;
    const double last = static_cast<double>((f_.stretches - 1) * f_.combined / (f_.rows_reduced ? f_.rows : 1));
    const double some = std::max(1.0, lanes ? steps - last : 1.0);
    arithmetic_ += groups * some * outputs_ * pass * u_.cost[0], instructions_ += groups * some * outputs_ * 3;
  }
  if (lanes_at_end_) arithmetic_ += groups * outputs_ * pass * u_.cost[0], instructions_ += groups * outputs_ * 2;
  reduces_ = (f_.lane_reduced ? 1 : 0) + (f_.rows_reduced ? 1 : 0);
  crossing_ += reduces_ * groups * outputs_ * full_ * u_.pass, instructions_ += reduces_ * groups * outputs_;
  const double adds = of(at_place::accumulates);
  arithmetic_ += groups * adds * pass * (u_.cost[0] + cost / outputs_);
  load_ += groups * adds * full_ * u_.port, instructions_ += groups * adds * 4;
  // registers are given to all iterations, those that finish nothing too
  const double joined = f_.steps > 1 ? u_.latency * (ragged_ ? 3 : 1) : 0;
  lives_ += outputs_ * (joined + (ragged_ || lanes_at_end_ ? u_.latency : 0) +
                        reduces_ * (u_.reduce_latency + full_ * (2 * u_.pass - 1)));
  lives_ += adds * (u_.load_latency + 2 * u_.latency);
  if (f_.steps == 1) return;
  group_values_ += outputs_ * totals_;
  group_life_ = std::max(group_life_, joined + u_.latency * (totals_ > 1 ? 2 : 1) + 1);
}

/// Those that values take while iterations follow each other so fast.
double KernelShape::registers(double interval) const {
  double taken = lives_ / interval;
  if (f_.steps == 1) return taken;
  const auto block = static_cast<double>(f_.block), steps = static_cast<double>(f_.steps);
  const double ahead = rounded_down(((steps - 1) * block * interval + group_life_) / (steps * block * interval));
  taken += group_values_ * std::min(block * (ahead + 1), static_cast<double>(f_.groups));
  const double in_step = rounded_down(((block - 1) * interval + u_.load_latency) / (block * interval)) + 1;
  return taken + step_values_ * in_step;
}

/// The pace at which registers suffice; 0: they are too few, however slow.
double KernelShape::pace_by_registers(double least) const {
  double free = static_cast<double>(32 >> lmul_) - 1 - hoisted_ - of(at_place::constants);
  if (ragged_ || lanes_at_end_) free -= outputs_;
  const double live = of(at_place::live) + (widens_ ? 1 : 0);
  const double length = (of(at_place::chain) + 4) * u_.latency + 4 * full_ * u_.pass;
  constexpr double turns = 8;  // of a value's registers, at most
  const double longest = of(at_place::longest) * u_.latency + 1;
  for (double interval = std::max(least, 1 / u_.issue); interval <= 2 * length + least;
       interval += std::max(1 / u_.issue, rounded_down(interval * u_.issue / 8) / u_.issue))
    if (std::max(registers(interval), live) <= free && longest <= turns * interval) return interval;
  return 0;
}

bool KernelShape::fits() {
  lay();
  if (lmul_ > 0 && f_.groups == 1 && f_.last_rows <= u_.rows << (lmul_ - 1)) return false;
  load(), compute(), store(), combine();
  return find_pace();
}

bool KernelShape::find_pace() {
  const auto groups = static_cast<double>(f_.groups), n = groups * static_cast<double>(f_.steps);
  front_ = (instructions_ + 2 * n + 8 + before_ + 3 * of(at_place::constants)) / u_.width;
  apart_ = beats(each(), 0) * static_cast<double>(d_.own.apart) / 1000;
  const double carried = combines_ && f_.steps > 1 ? u_.latency / (totals_ * static_cast<double>(f_.block)) : 0;
  const std::pair<double, const char*> paces[] = {{arithmetic_ / n, "vector"},
                                                  {load_ / u_.loads / n, "load port"},
                                                  {store_ / u_.stores / n, "store port"},
                                                  {front_ / n, "front end"},
                                                  {apart_ / n, "own instruction"},
                                                  {carried, "latency"},
                                                  {f_.steps == 1 ? crossing_ / n : 0, "cross-lane"}};
  double least = 0;
  for (const auto& [pace, name] : paces)
    if (pace > least) least = pace, limit_ = name;
  const double least_scheduled = std::max({arithmetic_, load_ / u_.loads, store_ / u_.stores, crossing_}) / n;
  regs_ = pace_by_registers(rounded_up(least_scheduled * u_.issue) / u_.issue);
  if (regs_ == 0) return false;
  interval_ = least;
  // where no instructions of an iteration wait for each other, loads run ahead of the schedule
  const bool waits = of(at_place::chain) > 0;
  if (waits && regs_ > rounded_up(least_scheduled * u_.issue) / u_.issue && regs_ > least)
    interval_ = regs_, limit_ = "registers";
  group_pace_ = interval_ * static_cast<double>(f_.steps);
  if (crossing_ / groups > group_pace_) group_pace_ = crossing_ / groups, limit_ = "cross-lane";
  return true;
}

/// Cycles of so many instructions that wait for each other: those that hold their pipe longer than a result takes hold
/// up what waits.
double KernelShape::chained(double hops) const {
  const double result = std::max(u_.latency, static_cast<double>(d_.own.latency));
  double cycles = hops * result, left = hops;
  for (std::size_t i = u_.cost.size(); i-- > 0;) {
    const double some = std::min(left, i > 0 ? of(at_place::instructions + i) : left);
    cycles += some * std::max(0.0, full_ * u_.cost[i] - result), left -= some;
  }
  return cycles;
}

TileLatency KernelShape::latency() {
  const auto groups = static_cast<double>(f_.groups), steps = static_cast<double>(f_.steps);
  const double filled = of(at_place::known) > 1 ? 1 : 0;  // registers that the first instruction waits for
  const double more = !combines_ ? 0 : (f_.steps > 1 ? totals_ : 0) + (ragged_ ? 1 : 0) + (lanes_at_end_ ? 1 : 0);
  const double after = combines_ ? (of(at_place::accumulates) > 0 ? 1 : 0) + narrows_totals_ : 0;
  const double hops = of(at_place::chain) + more;
  const double across = reduces_ * (full_ * u_.pass + u_.reduce_latency);
  const double spread = spreads_ ? u_.cross_latency + (full_ - 1) * (u_.pass - 1) : 0;
  const double last = full_ * u_.cost[0], fills = of(at_place::constants) * full_ * u_.cost[0] / u_.issue;
  // the last iteration behind the first
  const double follow = (groups - 1) * group_pace_ + (steps - 1) * interval_;
  span_ = hops > 0 ? chained(hops + filled - (after > 0 ? 0 : 1)) + (spreads_narrow_ ? spread : 0) : 0;
  if (after > 0) span_ += across + chained(after - 1);
  busy = arithmetic_ > 0 ? follow + span_ + last + fills : follow + interval_;
  // what is spread at first and combined at last holds up the next kernel
  double crossed = 0;
  if (reduces_ > 0) {
    const double between = (reduces_ - 1) * (u_.reduce_latency + full_ * u_.pass) + full_ * u_.pass;
    crossed = between;
    if (spreads_)
      crossed += (groups - 1) * std::max(steps * interval_, spreading_ / groups) + (steps - 1) * interval_ + spread +
                 chained(of(at_place::spread_chain) + more);
    else
      crossed += (groups - 1) * group_pace_;
  }
  busy = std::max({busy, load_ / u_.loads, store_ / u_.stores, crossing_, arithmetic_, apart_, front_, crossed});
  const double prologue = (6 + before_ + 3 * of(at_place::constants)) / u_.width + 2;
  done = prologue + u_.load_latency + follow +
         std::max(chained(hops), spread + chained(of(at_place::spread_chain) + more)) +
         (after > 0 ? chained(after) : 0) + across + full_ * u_.port + 1;
  // an instruction of the user's gives the last register of a group later
  done += (full_ - 1) * static_cast<double>(std::max(d_.own.shared, d_.own.apart)) / 1000;
  done = std::max(done, busy + (arithmetic_ > 0 ? u_.load_latency : 0));
  TileLatency found;
  found.busy = std::max<std::int64_t>(1, std::llround(busy));
  found.done = std::max(found.busy, static_cast<std::int64_t>(std::llround(done)));
  found.consumed = found.weights_consumed = found.busy;
  found.first = std::clamp<std::int64_t>(std::llround(done - busy + interval_), 1, found.done);
  found.limit = limit_;
  return found;
}

/// A search asks for the same tiles again and again.
class Known {
 public:
  template <class Find>
  const std::optional<TileLatency>& of(const VectorUnits& units, const Descriptor& d, Find find) {
    if (entries_.empty()) entries_.resize(entries);
    Entry& entry = entries_[hash(d) % entries];
    const bool same = entry.used && entry.units == units && entry.elements == d.elements &&
                      entry.lane_extent == d.lane_extent && entry.combined == d.combined && entry.own == d.own &&
                      entry.moves == d.moves;
    if (!same) entry = {units, d.moves, d.own, d.elements, d.lane_extent, d.combined, find(), true};
    return entry.latency;
  }

 private:
  static constexpr std::size_t entries = 1024;
  struct Entry {
    VectorUnits units;
    VectorMoves moves;
    OwnWork own;
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
  std::vector<Entry> entries_;
};

std::optional<TileLatency> best_shape(const VectorUnits& units, const Descriptor& d) {
  std::optional<TileLatency> best;
  const bool combines = d.moves.counts[at_place::combines] + d.moves.counts[at_place::combines + 1] > 0;
  for (const int lmul : {2, 1, 0})
    for (const bool shared : {false, true}) {
      if (shared && (combines || d.combined == 1)) continue;
      KernelShape shape(units, d, lmul, shared);
      if (!shape.fits()) continue;
      const TileLatency found = shape.latency();
      if (!best || found.busy + found.done < best->busy + best->done) best = found;
    }
  return best;
}

}  // namespace

std::optional<TileLatency> kernel_latency(const Share& machine, const Descriptor& d) {
  thread_local Known known;
  const VectorUnits units(machine);
  return known.of(units, d, [&] { return best_shape(units, d); });
}

}  // namespace tilesim
