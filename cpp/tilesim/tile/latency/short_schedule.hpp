// Schedules the few instructions of a short kernel on a core's units. Closed forms of short computes use this schedule,
// because sums of cycles per unit miss the dependencies.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "tilesim/base/shape.hpp"
#include "tilesim/machine/share.hpp"

namespace tilesim {

/// A schedule in cycles. Instructions of a unit start in order. A dependent instruction may start `latency` after the
/// first beat of its operand, and reads at most as fast as the operand is produced. Queues of units never fill.
class ShortSchedule {
 public:
  enum Unit : std::uint8_t { load, store, arithmetic, cross_lane, units };

  explicit ShortSchedule(const Share& machine) : vector_(machine.core.vector), isa_(machine.whole.core.isa) {
    const std::int64_t bits = isa_.vlen > 0 ? isa_.vlen : 32 * vector_.lanes * vector_.sublanes;
    register_bytes = std::max<std::int64_t>(1, bits / 8);
    port_bytes_ = isa_.port_bytes > 0 ? isa_.port_bytes : register_bytes;
    crossing_ = std::max<std::int64_t>(1, machine.core.cross_lane.bytes_per_cycle);
    free_[load].resize(static_cast<std::size_t>(std::max<std::int64_t>(1, isa_.loads)));
    free_[store].resize(static_cast<std::size_t>(std::max<std::int64_t>(1, isa_.stores)));
    free_[arithmetic].resize(static_cast<std::size_t>(std::clamp<std::int64_t>(vector_.issue, 1, 8)));
    free_[cross_lane].resize(1);
  }

  // Cycles for which an instruction occupies its unit:
  double neighbours(std::int64_t bytes) const {
    const std::int64_t beats = std::max<std::int64_t>(1, ceil_div(bytes, register_bytes));
    return static_cast<double>(beats * register_bytes) / static_cast<double>(port_bytes_);
  }
  double apart(std::int64_t elements) const {
    return std::max(1.0, static_cast<double>(elements) / static_cast<double>(vector_.lanes));
  }
  double beats(std::int64_t bytes, double cost) const {
    return cost * static_cast<double>(std::max<std::int64_t>(1, ceil_div(bytes, register_bytes)));
  }
  double crossing(std::int64_t bytes) const {
    return static_cast<double>(std::max<std::int64_t>(1, ceil_div(bytes, crossing_)));
  }

  double loaded() const { return static_cast<double>(isa_.load_latency) + 1; }
  double latency() const { return static_cast<double>(vector_.latency); }
  double reduced() const { return static_cast<double>(vector_.reduce_latency); }
  double simple() const { return vector_.simple; }
  double multiply() const { return vector_.multiply; }

  double front() const { return front_; }
  double over() const { return over_; }
  /// The front end issues independent instructions.
  void issue(std::int64_t count) {
    front_ += static_cast<double>(count) / static_cast<double>(std::max<std::int64_t>(1, isa_.width));
  }
  /// Stalls the front end until cycle `until`.
  void wait(double until) {
    if (until > front_) front_ = std::ceil(until);
    over_ = std::max(over_, front_);
  }
  /// The front end runs dependent scalar instructions, one cycle each.
  void chain(std::int64_t count) { wait(std::floor(front_) + static_cast<double>(count)); }

  /// Returns the start of an instruction that occupies the unit for `held` cycles, has operands at cycle `ready`, and
  /// produces its last result `result` cycles after its start.
  double take(Unit unit, double held, double ready, double result) {
    issue(1);
    double& free = *std::min_element(free_[unit].begin(), free_[unit].end());
    const double start = std::max({front_ + 1, begun_[unit], free, ready});
    free = start + held, begun_[unit] = start, over_ = std::max(over_, start + held - 1 + result);
    return start;
  }
  /// Earliest start of an instruction that reads for `held` cycles what is produced for `made` cycles from `start` on.
  static double behind(double start, double latency, double made, double held) {
    return start + latency + std::max(0.0, made - held);
  }

  /// Delays all times by the duration of trips that are not scheduled.
  void pass(double cycles) {
    front_ += cycles, over_ += cycles;
    for (auto& pipes : free_)
      for (double& pipe : pipes) pipe += cycles;
    for (double& one : begun_) one += cycles;
  }

  std::int64_t register_bytes = 1;

 private:
  const VectorSpec& vector_;
  const IsaSpec& isa_;
  std::int64_t port_bytes_ = 1, crossing_ = 1;
  double front_ = 0, over_ = 0;
  std::array<std::vector<double>, units> free_;
  std::array<double, units> begun_{};
};

/// Schedules the first trips of a loop; the remaining trips take as long as the last scheduled ones.
template <class Trip>
void repeat(ShortSchedule& schedule, std::int64_t trips, Trip trip) {
  constexpr std::int64_t first = 6, pace = 4;
  double before = 0;
  for (std::int64_t i = 0; i < std::min(trips, first + pace); ++i) {
    if (i == first) before = schedule.over();
    trip(i);
  }
  if (trips > first + pace)
    schedule.pass((schedule.over() - before) / static_cast<double>(pace) * static_cast<double>(trips - first - pace));
}

}  // namespace tilesim
