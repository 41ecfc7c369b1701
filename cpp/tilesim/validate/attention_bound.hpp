// Error bounds of attention as one kernel. Internal to this module.
#pragma once

#include "tilesim/graph/attention.hpp"
#include "tilesim/validate/error_bound.hpp"

namespace tilesim::validate {

/// Bounds on the distance between the online softmax and the softmax of whole rows, on the same operands. `magnitudes`:
/// the attention of |v| instead of v. Scores deviate as sums of `depth` products do, by at most a multiple of |q| |k|;
/// weights by the exponential of twice that, and by the rounding of the factors of v; sums of weights and values by
/// their length. The logarithm of the sum of weights deviates as scores do, plus its relative error.
std::vector<Array> attention_bounds(const AttentionShape& shape, const Op& op, const std::vector<Bounded>& operands,
                                    const Array& magnitudes, const std::vector<Array>& results,
                                    const Numerics& numerics);

}  // namespace tilesim::validate
