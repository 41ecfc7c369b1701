// Error bounds of factorizations and substitutions. Internal to this module.
#pragma once

#include "tilesim/validate/error_bound.hpp"

namespace tilesim::validate {

/// Bounds on the error of a linear_solve in the vector unit's arithmetic: the backward error of substitution and of
/// Cholesky's method, for any order of the sums, carried through the inverse of the factor, as are deviations of the
/// operands. Infinite if the matrix is too close to singular.
std::vector<Array> solve_bounds(const Op& op, const std::vector<Bounded>& operands, const Array& result);

}  // namespace tilesim::validate
