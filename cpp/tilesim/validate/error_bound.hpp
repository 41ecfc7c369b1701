// Bounds on the distance of a result from the reference's result on the same operands: rounding errors carried through
// the operations of a kernel.
#pragma once

#include <vector>

#include "tilesim/base/numerics.hpp"
#include "tilesim/graph/graph.hpp"

namespace tilesim::validate {

/// A reference value and its maximum deviation, element by element.
struct Bounded {
  Array value;
  Array error;  ///< f64, in the value's shape; empty: no deviation
};

bool is_product(const Op& op);

/// Deviation of each result of `op`; `results` are the reference's, products in `numerics`.
///
/// Products: gamma_n * sum |a||b| + u_out * |ref| with gamma_n = n*u / (1 - n*u) (Higham, Accuracy and Stability of
/// Numerical Algorithms, 2nd ed., section 3.1), plus the effects of the operands' deviations and of rounding such
/// operands. Sums: gamma_n * sum |x|. Other operations are monotone in each operand where it matters: the extremes lie
/// at the corners of the operands' intervals. A few roundings of the result's type are added.
std::vector<Array> error_bounds(const Graph& graph, const GraphFunction& function, const Op& op,
                                const std::vector<Bounded>& operands, const std::vector<Array>& results,
                                const Numerics& numerics);

}  // namespace tilesim::validate
