// Extrapolates the result of a long program from the results of short programs, with error bounds.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "tilesim/base/units.hpp"
#include "tilesim/report/result.hpp"

namespace tilesim::engine::replay {

/// The fraction numerator / denominator, with denominator > 0.
struct Weight {
  Int128 numerator = 1;
  Int128 denominator = 1;

  Weight times(std::int64_t up, std::int64_t down) const { return {numerator * up, denominator * down}; }
};

struct WeightedResult {
  Weight weight;
  const Result* result = nullptr;
};

/// Copies `like` and replaces every number that grows with the work by the weighted sum of the parts' numbers, or by 0
/// if the sum is negative. Empty if the parts have different units, kernels or energies.
std::optional<Result> combined(const Result& like, std::span<const WeightedResult> parts);

/// Adjusts unit states and exclusive times so that their sums equal the totals after rounding.
void balance(Result& result);

/// Relative error bounds of cycles, of other counts, and of busy cycles of DMA queues.
struct Bounds {
  double cycles = 0, others = 0, queues = 0;
  static constexpr double margin = 4;           ///< bound / difference of two predictions
  static constexpr double least = 0.005;        ///< lower limit of both other bounds
  static constexpr double least_queues = 0.05;  ///< lower limit of the bound of DMA queues, as a fraction of all cycles
};

/// Error bounds from two predictions with different trip counts. Assumption: the error halves if the trips double, so
/// the longer runs err by the difference of the predictions. Rings that need more trips to fill than were simulated
/// break it: ten of 2,400 random loops had errors above twice the difference plus a thousandth, at most 1.7 % of the
/// cycles. The bound is therefore four times the difference, and at least 0.5 %. For times below 1 % of all cycles, it
/// is relative to this 1 %. A DMA queue is busy while its transfer waits for other queues, so its busy cycles depend on
/// how far those have run, which may change once in a thousand trips: three of 2,330 random loops had errors, at most
/// 2.5 % of all cycles; the bound is twice that.
Bounds bounds(const Result& shorter, const Result& longer);

}  // namespace tilesim::engine::replay
