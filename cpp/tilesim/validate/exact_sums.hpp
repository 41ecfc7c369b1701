// Detects sums that are exact in any order.
#pragma once

#include <cstdint>

#include "tilesim/base/array.hpp"

namespace tilesim::validate {

/// Whether sums of `n` products (of n numbers: b null), in any order, and `added` to them are exact in `type`: every
/// partial sum is a multiple of the grid and fits its digits.
bool sums_exactly(const Array& a, const Array* b, std::int64_t n, const Array* added, DType type);

}  // namespace tilesim::validate
