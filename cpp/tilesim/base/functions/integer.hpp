// Definition of the elementwise functions on integers of a dtype.
#pragma once

#include <cstdint>

#include "tilesim/base/functions/functions.hpp"

namespace tilesim {

/// `operands` have 64 bits (u64: the same bits). `dtype` is the operands' type: it determines the number of bits, and
/// whether comparison and division are unsigned. A shift by a negative amount, or by the width or more, leaves only the
/// sign. The result is modulo 2^64 and wraps when it is stored; for bool it is 0 or 1. Throws UserError if the function
/// is undefined for integers, or for a division by zero.
std::int64_t evaluate(Function function, const std::int64_t* operands, DType dtype);

}  // namespace tilesim
