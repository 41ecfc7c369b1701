// Closed form of sorts: time of a SortPlan's words on ports, pipes and the cross-lane unit.
#include <algorithm>
#include <bit>
#include <cmath>

#include "tilesim/base/shape.hpp"
#include "tilesim/tile/latency.hpp"
#include "tilesim/tile/sort_plan.hpp"

namespace tilesim {

namespace {

int levels_of(std::int64_t n) { return std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(1, n) - 1)); }

/// Times in thousandths of a cycle. Instructions of a pipe start in order: a level of comparisons takes its throughput,
/// or waits for the previous level.
class SortForm {
 public:
  SortForm(const Share& machine, const SortPlan& plan, DType dtype) : plan_(plan), dtype_(dtype) {
    const VectorSpec& vector = machine.core.vector;
    const IsaSpec& isa = machine.whole.core.isa;
    const std::int64_t bytes = 4 * vector.lanes * vector.sublanes, port = isa.port_bytes > 0 ? isa.port_bytes : bytes;
    operation_ = milli(vector.simple) / static_cast<double>(vector.issue);
    narrow_ = vector.packs_narrow ? 1 : std::max(1, 32 / std::max(8, bits(dtype_)));
    latency_ = milli(static_cast<double>(vector.latency));
    const double beat = milli(std::max(1.0, static_cast<double>(bytes) / static_cast<double>(port)));
    load_ = beat / static_cast<double>(isa.loads), store_ = beat / static_cast<double>(isa.stores);
    first_ = milli(static_cast<double>(isa.load_latency) + 2);
    parts_ = plan.wide ? 2 : 1, side_ = plan.wide ? 1 : 2;
    const std::int64_t crossing = plan.elements() * plan.word_bits / 8;
    pass_ = milli(
        static_cast<double>(std::max<std::int64_t>(1, ceil_div(crossing, machine.core.cross_lane.bytes_per_cycle))));
    pass_ *= parts_;
    crossing_ = milli(static_cast<double>(machine.core.cross_lane.latency));
  }

  double whole() {
    double block = 0;
    if (plan_.resident())
      block = encode(plan_.filled) + network(plan_.filled, 1) + parts_of(plan_.sorted, true) + decode(plan_.stored());
    else if (plan_.streams())
      block = streamed();
    else
      block = memory();
    crossed_ = parts_of(plan_.sorted, true), sum_ = block;
    return block * static_cast<double>(plan_.row_blocks) + first_;
  }
  const char* limit() const { return plan_.columns > 1 && 2 * crossed_ > sum_ ? "lanes" : "simple"; }

 private:
  static double milli(double cycles) { return cycles * 1000; }
  double level(double operations) const { return std::max(operations * operation_, latency_); }
  /// Comparators of words in two registers (isa/order/word_networks.cpp) share one mask register: `instructions` for a
  /// mask that waits for another, then `selected` for the positions.
  double compared(double comparators, double instructions, double selected) const {
    return comparators * std::max(instructions * operation_, 2 * latency_ + std::max(milli(1), selected * operation_));
  }
  double exchanged(double comparators) const {
    return plan_.wide ? compared(comparators, 6, 2) : level(2 * comparators);
  }
  double kept(double comparators) const { return plan_.wide ? compared(comparators, 4, 1) : comparators * operation_; }

  /// Number of operations on keys only, and on words.
  std::pair<int, int> encoding() const {
    const bool floating = is_float(dtype_) && dtype_ != DType::f8e8m0fnu;
    const bool fnuz = nan_for_minus_zero(dtype_);
    const bool integer = dtype_class(dtype_) == DTypeClass::signed_integer;
    if (plan_.wide)  // keys and places are separate registers
      return {0, (floating ? 12 : integer ? 1 : 0) + 1 + (floating ? 1 : 0) + (plan_.padded() ? 6 : 0)};
    const int places = (plan_.columns > 1 ? 1 : 0) + (plan_.padded() ? 5 : 0);
    return {fnuz ? 10 : floating ? 12 : integer ? 1 : 0, (floating && !fnuz ? 5 : 3) + places};
  }
  std::pair<int, int> decoding() const {
    const bool floating = is_float(dtype_) && dtype_ != DType::f8e8m0fnu;
    const bool integer = dtype_class(dtype_) == DTypeClass::signed_integer;
    if (plan_.wide) return {0, (floating ? 7 : integer ? 1 : 0) + 3};
    const int halves = plan_.word_bits / 2, wider = halves < 32 ? 1 : 0, cut = levels_of(halves / bits(dtype_));
    return {floating ? 7 + std::max(1, cut) - 1 : integer ? 1 : 0, 3 + wider + cut};
  }
  /// Operations on four registers at a time.
  double side_by_side(std::int64_t registers, std::pair<int, int> operations) const {
    double sum = 0;
    for (std::int64_t done = 0; done < registers; done += 4) {
      const auto some = static_cast<double>(std::min<std::int64_t>(4, registers - done));
      sum += operations.first * level(some * narrow_) + operations.second * level(some);
    }
    return sum;
  }
  double encode(std::int64_t registers) const {
    return std::max(side_by_side(registers, encoding()), static_cast<double>(registers) * load_);
  }
  double decode(std::int64_t registers) const {
    return std::max(side_by_side(registers, decoding()), 2 * static_cast<double>(registers) * store_);
  }

  static std::int64_t comparators(std::int64_t registers, std::int64_t distance) {
    const std::int64_t rest = registers % (2 * distance);
    return registers / (2 * distance) * distance + std::max<std::int64_t>(0, rest - distance);
  }
  double cleaning(std::int64_t registers, std::int64_t widest, std::int64_t side) const {
    double sum = 0;
    for (std::int64_t d = widest; d > 0; d /= 2)
      sum += exchanged(static_cast<double>(side * comparators(registers, d)));
    return sum;
  }
  /// Sorts registers that stay in the register file.
  double network(std::int64_t registers, std::int64_t side) const {
    double sum = 0;
    for (std::int64_t size = 2; size / 2 < registers; size *= 2)
      sum +=
          exchanged(static_cast<double>(side * comparators(registers, size / 2))) + cleaning(registers, size / 4, side);
    return sum;
  }

  /// Words that pass from memory to memory: ports or comparators, and the latency of both.
  double pass(double registers, double comparing, double stored, int levels) const {
    return std::max({registers * parts_ * load_, stored * parts_ * store_, comparing}) + first_ +
           (levels + 1) * latency_;
  }
  double passes(double comparators) const {
    const double operating = plan_.wide ? exchanged(comparators) : 2 * comparators * operation_;
    return pass(2 * comparators, operating, 2 * comparators, 1);
  }
  double clean_memory(std::int64_t registers, std::int64_t widest) const {
    double sum = 0;
    for (std::int64_t d = widest; d >= SortPlan::block; d /= 2)
      sum += passes(static_cast<double>(comparators(registers, d)));
    const int levels = levels_of(std::min<std::int64_t>(SortPlan::block, 2 * widest));
    const auto all = static_cast<double>(registers);
    // all registers are in use: words of the next trip arrive when those of this one leave
    const double words = side_ * SortPlan::block, trip = levels * exchanged(words / 2) + first_ + latency_;
    const double waits = all / words * trip;
    return sum + std::max(pass(all, 0, all, 0), waits + first_ + latency_);
  }

  double streamed() const {
    const std::int64_t runs = plan_.filled / plan_.run, rest = plan_.filled % plan_.run;
    const auto next = [&](std::int64_t filled) {
      return encode(filled) + network(filled, 1) +
             (plan_.wide ? kept(static_cast<double>(filled)) : level(static_cast<double>(filled))) +
             cleaning(plan_.run, plan_.run / 2, 1);
    };
    double sum = encode(plan_.run) + network(plan_.run, 1);
    sum += static_cast<double>(runs - 1) * (next(plan_.run) + level(parts_ * static_cast<double>(plan_.run)));
    if (rest != 0) sum += next(rest);
    return sum + parts_of(plan_.run, true) + decode(plan_.stored());
  }

  double memory() const {
    constexpr std::int64_t block = SortPlan::block;
    const std::int64_t all = plan_.registers;
    const double pairs_of_blocks = static_cast<double>(ceil_div(plan_.filled, block)) / 2;
    double sum = std::max(pairs_of_blocks * (4 * side_by_side(4, encoding()) + network(block, 2)),
                          static_cast<double>(all) * store_) +
                 first_ + latency_;
    const std::int64_t limit = plan_.chooses() ? plan_.run : 2 * all;
    for (std::int64_t size = 2 * block; size <= limit && size / 2 < all; size *= 2)
      sum += passes(static_cast<double>(comparators(all, size / 2))) + clean_memory(all, size / 4);
    if (plan_.chooses())
      for (std::int64_t runs = all / plan_.run; runs > 1; runs = (runs + 1) / 2) {
        const std::int64_t left = (runs + 1) / 2 * plan_.run;
        const auto pairs = static_cast<double>(runs / 2 * plan_.run);
        sum += pass(2 * pairs, kept(pairs), pairs, 1) + clean_memory(left, plan_.run / 2);
      }
    return sum + parts_of(plan_.sorted, false) + decode(plan_.stored()) + first_;
  }

  /// Merges parts of rows by flips: every register passes the cross-lane unit.
  double parts_of(std::int64_t registers, bool held) const {
    double sum = 0;
    const auto count = static_cast<double>(registers);
    const auto crosses = [&](double operations) {
      // few registers wait for the latency of the unit
      if (plan_.wide) {  // the mask of parts is computed during the first flips, then joins the other two
        const bool both = operations > 1;
        const double one = std::max((both ? 5 : 4) * operation_, (both ? 3 : 2) * latency_ + 2 * operation_);
        return count * std::max(pass_, one) + std::max((both ? 3 : 0) * latency_, latency_ + crossing_);
      }
      const double way = crossing_ + latency_ + count * operations * operation_;
      return std::max({count * pass_, count * operations * operation_, way});
    };
    std::int64_t wide = 0;
    for (int level = 1; std::int64_t{1} << level <= plan_.columns; ++level) {
      const bool all = registers << wide < plan_.run;
      if (all) wide = level;
      const std::int64_t further = all ? wide - 1 : wide;
      sum += crosses(all ? 2 : 1) + static_cast<double>(further) * crosses(2);
      if (!held) sum += 2 * first_;
      sum += held ? cleaning(registers, registers / 2, 1) : clean_memory(registers, registers / 2);
    }
    return sum;
  }

  SortPlan plan_;
  DType dtype_;
  double operation_ = 0, latency_ = 0, load_ = 0, store_ = 0, first_ = 0, pass_ = 0, crossing_ = 0;
  double parts_ = 1, side_ = 2;  ///< registers of a word; blocks side by side
  int narrow_ = 1;
  double crossed_ = 0, sum_ = 0;
};

}  // namespace

TileLatency sort_latency(const Share& machine, const Descriptor& d) {
  TileLatency latency;
  if (d.elements <= 0 || d.k <= 0) return latency;
  const VectorSpec& vector = machine.core.vector;
  const std::int64_t rows = ceil_div(d.elements, std::max<std::int64_t>(1, d.lane_extent));
  for (const SortPlan& plan : sort_plans(d.dtype, rows, d.lane_extent, d.k, vector.lanes * vector.sublanes)) {
    SortForm form(machine, plan, d.dtype);
    const auto done = std::max<std::int64_t>(1, static_cast<std::int64_t>(std::llround(form.whole() / 1000)));
    if (latency.done == 0 || done < latency.done) latency.done = done, latency.limit = form.limit();
  }
  latency.busy = latency.consumed = latency.weights_consumed = latency.first = latency.done;
  return latency;
}

}  // namespace tilesim
