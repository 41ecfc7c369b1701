// Extrapolates the result of a long program from results of short ones: weighted sums and error bounds.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "tilesim/base/units.hpp"
#include "tilesim/report/result.hpp"

namespace tilesim::engine::replay {

/// numerator / denominator, with denominator > 0.
struct Weight {
  Int128 numerator = 1;
  Int128 denominator = 1;

  Weight times(std::int64_t up, std::int64_t down) const { return {numerator * up, denominator * down}; }
};

struct WeightedResult {
  Weight weight;
  const Result* result = nullptr;
};

/// A copy of `like` in which every number that grows with the work is the weighted sum of the parts' numbers, at least
/// 0; ratios and names are those of `like`. Empty if the parts have different units, kernels or energies.
std::optional<Result> combined(const Result& like, std::span<const WeightedResult> parts);

/// Adjusts unit states and exclusive times so that they add up after rounding.
void balance(Result& result);

/// Error bounds from two predictions by different runs: for cycles, other counts, busy cycles of DMA queues.
struct Bounds {
  double cycles = 0, others = 0, queues = 0;
  static constexpr double margin = 4;           ///< factor on the difference of two predictions
  static constexpr double least = 0.005;        ///< smallest bound stated
  static constexpr double least_queues = 0.05;  ///< fraction of all cycles; smallest bound for DMA queues
};

/// Assumes that errors halve with twice the trips, so that the longer runs err by the difference of both predictions.
/// Rings that fill over more trips than were simulated break this assumption: of 2,400 random loops, ten had errors
/// above twice the difference and a thousandth, at most 1.7 % of the cycles. The bound is therefore four times the
/// difference, and at least half a per cent. Times below a hundredth of all cycles are bounded relative to that
/// hundredth. A DMA queue counts as busy while its transfer waits behind others, so its busy cycles depend on how early
/// other queues run, which may change once in a thousand trips: of 2,330 random loops three had errors, at most 2.5 %
/// of all cycles. The bound is twice that.
Bounds bounds(const Result& shorter, const Result& longer);

}  // namespace tilesim::engine::replay
