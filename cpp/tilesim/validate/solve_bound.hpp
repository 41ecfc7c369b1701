// Error bounds of factorizations and substitutions. Internal to this module.
#pragma once

#include "tilesim/validate/error_bound.hpp"

namespace tilesim::validate {

/// How far a linear_solve in the vector unit's arithmetic may be from the exact result: the backward error of
/// substitution and of Cholesky's method, which holds for every order of the sums, carried through the inverse of the
/// factor. Deviations of the operands are carried with it. Infinite where the matrix is too close to singular to tell.
std::vector<Array> solve_bounds(const Op& op, const std::vector<Bounded>& operands, const Array& result);

}  // namespace tilesim::validate
