// Times of units and memory for the tiles of a chain's stages.
#pragma once

#include <array>
#include <cstdint>

#include "tilesim/mapping/chain/plan.hpp"

namespace tilesim::mapping {

double chain_bytes(std::int64_t elements, DType dtype);

/// Cycles of the units per tile, and bytes that tiles move.
class ChainUnits {
 public:
  ChainUnits(const ChainProblem& problem, const Share& machine) : p_(problem), machine_(machine) {}

  /// Cycles for which the unit is busy, and cycles until the last result.
  struct Cycles {
    double busy = 0, done = 0;
    Cycles& operator+=(const Cycles& other) {
      busy += other.busy, done += other.done;
      return *this;
    }
  };

  /// The lane axis is the axis that fills the lanes best, as in the emitted statements.
  Cycles vector(const std::array<std::int32_t, 4>& functions, std::int64_t channels, std::int64_t rows,
                std::int64_t columns, std::int64_t taps = 1) const;

  /// Cycles of the array for a tile with `rows` rows of the stage's result.
  Cycles array(ChainStage stage, std::int64_t rows, std::int64_t hidden, bool rows_stay = false) const;
  Cycles behind(ChainStage stage, std::int64_t channels, std::int64_t rows) const;
  Cycles window(std::int64_t hidden, std::int64_t rows) const;

  double weight_bytes(ChainStage stage, std::int64_t hidden) const;
  double leaf_bytes(ChainStage stage, std::int64_t channels, std::int64_t rows) const;

  /// Bytes per cycle of a core if `cores` cores are busy.
  double rate(double cores) const;

  /// Cycles of a load besides those of its bytes, because only few bytes may be in flight.
  double alone() const;
  double way() const;

 private:
  Cycles product(DType a, DType b, std::int64_t rows, std::int64_t taps, std::int64_t depth, std::int64_t columns,
                 bool rows_stay, bool adds) const;
  DType read_by(ChainStage stage) const;

  const ChainProblem& p_;
  const Share& machine_;
};

}  // namespace tilesim::mapping
