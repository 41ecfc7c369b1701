// Meaning of the elementwise functions on integers of a dtype.
#pragma once

#include <cstdint>

#include "tilesim/base/functions/functions.hpp"

namespace tilesim {

/// `operands` are in 64 bits, those of u64 the same bits; `dtype` is theirs (comparisons only ask whether it is u64).
/// By it bits are counted, and numbers without a sign ordered and divided. Shifts by a negative amount, or by the width
/// and more, leave nothing but the sign. The result is one modulo 2^64: whoever stores it wraps; that of bool is 0 or
/// 1. UserError where the function has no integer meaning, or divides by zero.
std::int64_t evaluate(Function function, const std::int64_t* operands, DType dtype);

}  // namespace tilesim
