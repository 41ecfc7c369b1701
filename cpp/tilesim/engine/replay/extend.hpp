// Extrapolates the result of a long program from results of short ones: weighted sums, and bounds on their error.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "tilesim/base/units.hpp"
#include "tilesim/report/result.hpp"

namespace tilesim::engine::replay {

/// numerator / denominator; the denominator is above 0.
struct Weight {
  Int128 numerator = 1;
  Int128 denominator = 1;

  Weight times(std::int64_t up, std::int64_t down) const { return {numerator * up, denominator * down}; }
};

struct WeightedResult {
  Weight weight;
  const Result* result = nullptr;
};

/// `like` with every number that grows with the work as the weighted sum of the parts', none below 0; ratios and names
/// stay those of `like`. Nothing where the parts have other units, kernels or energies.
std::optional<Result> combined(const Result& like, std::span<const WeightedResult> parts);

/// States of units and exclusive times add up again after rounding.
void balance(Result& result);

/// What two predictions from different runs leave open: of cycles, other counts, busy cycles of DMA queues.
struct Bounds {
  double cycles = 0, others = 0, queues = 0;
  static constexpr double margin = 4;           ///< times what two predictions differ by
  static constexpr double least = 0.005;        ///< what is promised at best
  static constexpr double least_queues = 0.05;  ///< of all cycles: the same for DMA queues
};

/// The prediction from longer runs is as far off as both are apart where errors halve with twice the trips. Rings that
/// fill over more trips than were simulated are seen by neither: of 2,400 random loops, ten were further off than twice
/// the difference or a thousandth, at most by 1.7 % of the cycles. So four times the difference is said, and no less
/// than half a per cent. Times below a hundredth of all cycles are measured by that. A DMA queue is busy while its
/// transfer waits behind those of others, so that its busy cycles depend on how far ahead the others are, which may
/// shift once in a thousand trips: of 2,330 random loops three were off, at most by 2.5 % of all cycles. Twice that is
/// said.
Bounds bounds(const Result& shorter, const Result& longer);

}  // namespace tilesim::engine::replay
