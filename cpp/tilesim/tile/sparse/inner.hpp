// The inner-product dataflow of a sparse core (as in SIGMA): multipliers keep vectors of the stationary operand, and
// all vectors of the other operand stream past.
#pragma once

#include <cstdint>

#include "tilesim/tile/sparse/core.hpp"

namespace tilesim::sparse {

/// `held`: [vectors, contracted]; `streamed`: number of vectors of the other operand, which include zeros.
SparseTime inner_time(const SparseCore& core, const BitMatrix& held, std::int64_t streamed);
SparseTime expected_inner(const SparseCore& core, std::int64_t vectors, std::int64_t contracted, std::int64_t nonzeros,
                          std::int64_t streamed);

}  // namespace tilesim::sparse
