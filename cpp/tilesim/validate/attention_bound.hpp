// Error bounds of attention as one kernel. Internal to this module.
#pragma once

#include "tilesim/graph/attention.hpp"
#include "tilesim/validate/error_bound.hpp"

namespace tilesim::validate {

/// How far the online softmax may be from the one of whole rows, on the same operands. `magnitudes`: the attention of
/// |v| instead of v. Scores deviate by what sums of `depth` products do, at most as |q| |k| says; weights by the
/// exponential of twice that, and by the rounding of what multiplies v; sums of weights and values by their length. The
/// logarithm of the sum of weights deviates by what scores do, and by its relative error.
std::vector<Array> attention_bounds(const AttentionShape& shape, const Op& op, const std::vector<Bounded>& operands,
                                    const Array& magnitudes, const std::vector<Array>& results,
                                    const Numerics& numerics);

}  // namespace tilesim::validate
