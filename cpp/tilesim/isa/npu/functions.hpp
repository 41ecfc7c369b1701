// Numbers of the special functions of instruction `fn`: the position in this list. Numbers 24 to 31 are user-defined.
#pragma once

#include <array>

#include "tilesim/base/functions/functions.hpp"

namespace tilesim::isa {

inline constexpr std::array<Function, 24> special_functions{
    Function::exp,   Function::exp2,    Function::expm1,    Function::log,       Function::log2, Function::log1p,
    Function::rsqrt, Function::cbrt,    Function::sin,      Function::cos,       Function::tan,  Function::asin,
    Function::acos,  Function::atan,    Function::sinh,     Function::cosh,      Function::tanh, Function::erf,
    Function::erfc,  Function::sigmoid, Function::gelu_erf, Function::gelu_tanh, Function::silu, Function::softplus};

/// Number of a special function; −1: none.
constexpr int special_number(Function function) {
  for (std::size_t i = 0; i < special_functions.size(); ++i)
    if (special_functions[i] == function) return static_cast<int>(i);
  return -1;
}

}  // namespace tilesim::isa
