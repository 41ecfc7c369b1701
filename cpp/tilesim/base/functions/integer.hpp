// Meaning of the elementwise functions on integers of a dtype.
#pragma once

#include <cstdint>

#include "tilesim/base/functions/functions.hpp"

namespace tilesim {

/// `operands` have 64 bits (u64: the same bits); `dtype` is their type and determines bit counts and unsigned
/// comparison and division. Shifts by a negative amount, or by at least the width, leave only the sign. The result is
/// modulo 2^64, and wraps when stored; for bool it is 0 or 1. UserError if the function is undefined for integers, or
/// divides by zero.
std::int64_t evaluate(Function function, const std::int64_t* operands, DType dtype);

}  // namespace tilesim
