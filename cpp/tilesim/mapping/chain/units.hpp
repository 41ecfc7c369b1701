// Time of the units and the memory for the tiles of a chain's stages.
#pragma once

#include <array>
#include <cstdint>

#include "tilesim/mapping/chain/plan.hpp"

namespace tilesim::mapping {

double chain_bytes(std::int64_t elements, DType dtype);

/// Cycles of the units for tiles, and what they move.
class ChainUnits {
 public:
  ChainUnits(const ChainProblem& problem, const Share& machine) : p_(problem), machine_(machine) {}

  /// Cycles that the unit is busy, and until the last result.
  struct Cycles {
    double busy = 0, done = 0;
    Cycles& operator+=(const Cycles& other) {
      busy += other.busy, done += other.done;
      return *this;
    }
  };

  /// Over the lanes lies what fills them best, as where statements are made.
  Cycles vector(const std::array<std::int32_t, 4>& functions, std::int64_t channels, std::int64_t rows,
                std::int64_t columns, std::int64_t taps = 1) const;

  /// Of the array for a tile with so many rows of the stage's result.
  Cycles array(ChainStage stage, std::int64_t rows, std::int64_t hidden, bool rows_stay = false) const;
  Cycles behind(ChainStage stage, std::int64_t channels, std::int64_t rows) const;
  Cycles window(std::int64_t hidden, std::int64_t rows) const;

  double weight_bytes(ChainStage stage, std::int64_t hidden) const;
  double leaf_bytes(ChainStage stage, std::int64_t channels, std::int64_t rows) const;

  /// Per cycle of a core, while so many are at work.
  double rate(double cores) const;

  /// Cycles that a load is alone in its queue for, beside those of its bytes: few bytes may be under way.
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
