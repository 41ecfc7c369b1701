// Closed form of kernels of vector computes (isa/kernel/vector_kernel.cpp): a software pipeline over registers of rows.
// Its initiation interval follows from the busiest port, pipe or front end, or from the number of registers.
#include <cmath>

#include "tilesim/base/shape.hpp"
#include "tilesim/tile/latency/kernel_shape.hpp"

namespace tilesim {

namespace at_place = vector_count;

/// Determines the layout in registers.
void KernelShape::lay() {
  combines_ = count_of(at_place::combines) + count_of(at_place::combines + 1) > 0;
  const std::int64_t outer = d_.elements / std::max<std::int64_t>(1, d_.lane_extent);
  const bool split = combines_ || shared_;
  const std::int64_t combined = split ? d_.combined : 1;
  f_ = VectorForm(d_.lane_extent, outer / std::max<std::int64_t>(1, combined), combined, combines_,
                  d_.moves.counts[at_place::lanes_combined] != 0, u_.lanes, rows_ << lmul_);
  for (unsigned w = 0; w < 8; ++w) {
    const unsigned where = !split && (w & VectorForm::along_combined) != 0
                               ? (w & ~VectorForm::along_combined) | VectorForm::along_kept
                               : w;
    const auto reach = static_cast<std::size_t>(f_.reach(where));
    for (std::size_t width = 0; width < widths; ++width) operands_[reach][width] += count_of(at_place::load(w, width));
  }
  outputs_ = count_of(at_place::combines) + count_of(at_place::combines + 1);
  held_ = outputs_;
  for (std::size_t width = 0; width < widths; ++width)
    held_ += operands_[static_cast<std::size_t>(Reach::by_group)][width] +
             operands_[static_cast<std::size_t>(Reach::by_row)][width];
  f_.block = std::min(shared_ || together_ > 1 ? 1 : f_.groups, f_.block_for(static_cast<std::int64_t>(held_), lmul_));
  steps_ = static_cast<double>(f_.steps / together_);
  if (!combines_) return;
  const bool rows = f_.rows_reduced && f_.all_combined() % f_.rows != 0,
             lanes = f_.lane_reduced && d_.lane_extent % u_.lanes != 0;
  lanes_at_end_ = lanes && f_.stretches == 1 && f_.steps > 1;
  ragged_ = rows || (lanes && !lanes_at_end_);
  double functions = outputs_;
  for (std::size_t i = 0; i < u_.cost.size(); ++i) functions += count_of(at_place::instructions + i);
  const auto least = static_cast<std::int64_t>(rounded_down(functions * joined_ / u_.issue));
  const std::int64_t latency = ceil_div(static_cast<std::int64_t>(u_.latency), std::max(together_, least));
  totals_ = std::min(steps_, static_cast<double>(f_.totals_for(latency, lmul_)));
}

/// Number of addresses that a kernel keeps: each step of an iteration has a separate one.
double KernelShape::pointers() const {
  double all = 0;
  for (std::size_t r = 0; r < reaches; ++r)
    for (std::size_t width = 0; width < widths; ++width) {
      const auto reach = static_cast<Reach>(r);
      all += operands_[r][width] * (reach == Reach::each || reach == Reach::by_step ? joined_ : 1);
    }
  for (std::size_t kind = 0; kind < 4; ++kind) all += count_of(at_place::store(false, kind)) * joined_;
  return all + outputs_ * (ragged_ ? 2 : 1) + count_of(at_place::accumulates) + (lanes_at_end_ ? 1 : 0);
}

/// Whether steps can be joined; the same rule as in kernels (isa/kernel/vector_kernel.cpp).
bool KernelShape::may_join() const {
  if (together_ == 1) return true;
  if (!combines_ || f_.steps % together_ != 0) return false;
  const bool lanes = f_.lane_reduced && d_.lane_extent % u_.lanes != 0;
  const std::int64_t last = (f_.stretches - 1) * f_.combined / (f_.rows_reduced ? f_.rows : 1);
  if (ragged_ && (f_.steps != together_ || (lanes && last != f_.steps - 1))) return false;
  constexpr double registers = 13;
  return pointers() <= registers;
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
      const bool each_step = reach == Reach::each || reach == Reach::by_step;
      const bool stays = steps_ > 1 && reach != Reach::each;  // reused over the steps of a group, or the groups
      load_ += n * beats(times, width) * u_.port;
      instructions_ += n * all * (narrow ? 5 : 2);
      const bool spread = reach == Reach::by_row;
      const double across = spread ? u_.cross_latency + full_ * (pass_ - 1) : 0;
      const double of_each = n * (each_step ? joined_ : 1);
      if (narrow || spread || !stays) lives_ += of_each * u_.load_latency;
      if (narrow && (spread || !stays)) lives_ += of_each * u_.latency;
      if (spread && !stays) lives_ += n * across;
      if (!each_step && !stays) waiting_ += n * (1 - 1 / joined_);  // held until the last of the joined steps
      if (stays && reach == Reach::by_step) step_values_ += n;
      if (stays && reach != Reach::by_step) {
        group_values_ += n;
        group_life_ = std::max(group_life_, 1 + (spread ? across : narrow ? u_.latency : u_.load_latency));
      }
      if (narrow) arithmetic_ += n * beats(times, 0) * u_.cost[0] / u_.issue;
      if (reach != Reach::by_row) continue;
      spreads_ = true, spreads_narrow_ |= narrow;
      spreading_ += n * beats(times, 0) * pass_, instructions_ += n * all;
    }
}

void KernelShape::compute() {
  crossing_ += spreading_;
  double cost = static_cast<double>(d_.custom.shared) / 1000, all = 0;
  for (std::size_t i = 0; i < u_.cost.size(); ++i)
    cost += count_of(at_place::instructions + i) * u_.cost[i], all += count_of(at_place::instructions + i);
  const double iterations = static_cast<double>(f_.groups * f_.steps);
  arithmetic_ += beats(each(), 0) * cost / u_.issue + iterations * count_of(at_place::masks) * u_.latency;
  crossing_ += beats(each(), 0) * static_cast<double>(d_.custom.crossing) / 1000;
  instructions_ += iterations * all;
  lives_ += joined_ * (count_of(at_place::lives) * u_.latency + all / u_.issue);
  // values of fast instructions wait for the last part of a slower operand
  for (std::size_t i = 1; i < u_.cost.size(); ++i)
    lives_ += joined_ * count_of(at_place::instructions + i) * full_ * std::max(0.0, u_.cost[i] - u_.cost[0]);
}

void KernelShape::store() {
  for (const bool combined : {false, true})
    for (std::size_t kind = 0; kind < 4; ++kind) {
      const double n = count_of(at_place::store(combined, kind));
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
      if (!combined)
        lives_ += joined_ * n * (changes * u_.latency + beats(static_cast<double>(f_.rows), width) * u_.port);
    }
}

void KernelShape::combine() {
  if (!combines_) return;
  const double cost = count_of(at_place::combines) * u_.cost[0] + count_of(at_place::combines + 1) * u_.cost[1];
  const auto groups = static_cast<double>(f_.groups), steps = static_cast<double>(f_.steps);
  const double pass = full_ / u_.issue;
  if (together_ > 1) {
    arithmetic_ += beats(each(), 0) * (1 - 1 / joined_) * cost / u_.issue;
    instructions_ += outputs_ * groups * steps * (1 - 1 / joined_);
    lives_ += outputs_ * (joined_ - 1) * u_.latency;
    // half of the values of each level wait for their partners
    waiting_ += outputs_ * std::log2(joined_) / 2;
  }
  if (steps_ > 1) {
    arithmetic_ += beats(each(), 0) / joined_ * cost / u_.issue + (totals_ - 1) * groups * pass * cost;
    instructions_ += outputs_ * groups * (steps_ + totals_ - 1);
  }
  if (ragged_) {
    const bool lanes = f_.lane_reduced && d_.lane_extent % u_.lanes != 0;
    const double last = static_cast<double>((f_.stretches - 1) * f_.combined / (f_.rows_reduced ? f_.rows : 1));
    const double some = std::max(1.0, lanes ? steps - last : 1.0);
    arithmetic_ += groups * some * outputs_ * pass * u_.cost[0], instructions_ += groups * some * outputs_ * 3;
  }
  if (lanes_at_end_) arithmetic_ += groups * outputs_ * pass * u_.cost[0], instructions_ += groups * outputs_ * 2;
  reduces_ = (f_.lane_reduced ? 1 : 0) + (f_.rows_reduced ? 1 : 0);
  crossing_ += reduces_ * groups * outputs_ * full_ * pass_, instructions_ += reduces_ * groups * outputs_;
  const double sums = count_of(at_place::combines + 1) - count_of(at_place::products);
  if (sums > 0 && reduces_ == 0) before_ += 1;  // a 0 to which the first term is added, instead of a move
  if (sums > 0 && reduces_ == 0 && steps_ == 1) {
    zeros_ = 1;
    arithmetic_ += groups * sums * pass * u_.cost[1], instructions_ += groups * sums, lives_ += sums * u_.latency;
  }
  const double adds = count_of(at_place::accumulates);
  arithmetic_ += groups * adds * pass * cost / outputs_;
  load_ += groups * adds * full_ * u_.port, instructions_ += groups * adds * 3;
  // registers are assigned in all iterations, including those that finish nothing
  const double joined = steps_ > 1 ? u_.latency * (ragged_ ? 3 : 1) : 0;
  lives_ += outputs_ * (joined + (ragged_ || lanes_at_end_ ? u_.latency : 0) +
                        reduces_ * (u_.reduce_latency + full_ * (2 * pass_ - 1)));
  lives_ += adds * (u_.load_latency + u_.latency);
  if (steps_ == 1) return;
  group_values_ += outputs_ * totals_;
  group_life_ = std::max(group_life_, joined + u_.latency * (totals_ > 1 ? 2 : 1) + 1);
}

}  // namespace tilesim
