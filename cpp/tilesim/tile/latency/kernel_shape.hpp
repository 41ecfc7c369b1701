// Closed form of a vector compute's kernel, for one shape of the kernel.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "tilesim/tile/latency.hpp"
#include "tilesim/tile/vector_form.hpp"
#include "tilesim/tile/vector_units.hpp"
#include "tilesim/tile/vector_work.hpp"

namespace tilesim {

/// Rounds a nonnegative number down; faster than std::floor.
inline double rounded_down(double a) { return static_cast<double>(static_cast<std::int64_t>(a)); }
inline double rounded_up(double a) {
  const double below = rounded_down(a);
  return below + (a - below > 1e-9 ? 1 : 0);
}

/// A possible shape of a kernel. A group has 2^lmul registers. `shared`: broadcast operands are consecutive;
/// `together`: steps of a group per iteration, which combines them in pairs; `halved`: divide the rows of a register by
/// 2^`halved`, for computes with few rows.
class KernelShape {
 public:
  KernelShape(const VectorUnits& units, const Descriptor& d, int lmul, bool shared, std::int64_t together,
              int halved = 0)
      : u_(units),
        d_(d),
        lmul_(lmul),
        shared_(shared),
        full_(static_cast<double>(1 << lmul)),
        joined_(static_cast<double>(together)),
        together_(together),
        rows_(units.rows >> halved),
        pass_(std::max(1.0, rounded_up(units.pass / static_cast<double>(1 << halved)))) {}

  bool fits();  ///< false: the shape is longer than the rows, has too few registers, or cannot join steps
  TileLatency latency();
  double busy = 0, done = 0;

 private:
  using Reach = VectorForm::Reach;
  static constexpr std::size_t reaches = 5, widths = 3;

  double count_of(std::size_t which) const { return static_cast<double>(d_.moves.counts[which]); }
  double beats(double rows, std::size_t width) const {
    static constexpr double bits[] = {32, 16, 8};
    return std::max(1.0, rounded_up(rows * static_cast<double>(u_.lanes) * bits[width] / u_.bits));
  }
  void lay();
  bool may_join() const;
  double pointers() const;
  void load();
  void compute();
  void store();
  void combine();
  double registers(double interval) const;
  double chained(double hops) const;
  double pace_by_registers(double least) const;
  bool find_pace();

  /// Numbers of full groups (or steps) of a kernel, and of the last ones, which may have fewer rows.
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
  double full_;    ///< registers of a full group
  double joined_;  ///< steps per iteration
  std::int64_t together_, rows_;
  double pass_;       ///< cycles per register in the cross-lane unit
  double steps_ = 1;  ///< iterations per group
  VectorForm f_;
  bool combines_ = false, ragged_ = false, lanes_at_end_ = false;
  double totals_ = 1, outputs_ = 0, held_ = 0;
  std::array<std::array<double, widths>, reaches> operands_{};
  // Totals of the kernel, in cycles of each unit and in instructions.
  double load_ = 0, store_ = 0, arithmetic_ = 0, crossing_ = 0, spreading_ = 0, instructions_ = 0;
  double group_values_ = 0, group_life_ = 0, step_values_ = 0;  ///< kept values; least lifetime
  double lives_ = 0, hoisted_ = 0, before_ = 0;  ///< cycles of values in registers; registers; instructions before
  double waiting_ = 0;                           ///< lower limit on registers of values that wait for others
  double zeros_ = 0;                             ///< instructions in the chain that starts a sum at 0
  bool widens_ = false, spreads_ = false, spreads_narrow_ = false;
  double narrows_totals_ = 0;  ///< instructions before a store of totals
  double interval_ = 0, group_pace_ = 0, regs_ = 0, span_ = 0, reduces_ = 0, front_ = 0, apart_ = 0;
  const char* limit_ = "";
};

}  // namespace tilesim
