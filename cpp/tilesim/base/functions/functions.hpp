// The table of elementwise functions: name, number of operands, FLOP class and scalar definition.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tilesim/base/dtype.hpp"

namespace tilesim {

enum class Function : std::uint8_t {
  // one operand
  identity,
  negate,
  abs,
  sign,
  floor,
  ceil,
  round_even,
  trunc,
  is_finite,
  is_nan,
  logical_not,
  bitwise_not,
  popcount,
  exp,
  exp2,
  expm1,
  log,
  log2,
  log1p,
  sqrt,
  rsqrt,
  cbrt,
  reciprocal,
  sin,
  cos,
  tan,
  asin,
  acos,
  atan,
  sinh,
  cosh,
  tanh,
  erf,
  erfc,
  sigmoid,
  relu,
  gelu_erf,
  gelu_tanh,
  silu,
  softplus,
  // two operands
  add,
  subtract,
  multiply,
  divide,
  remainder,
  floor_divide,
  power,
  maximum,
  minimum,
  atan2,
  logical_and,
  logical_or,
  logical_xor,
  bitwise_and,
  bitwise_or,
  bitwise_xor,
  shift_left,
  shift_right,
  equal,
  not_equal,
  less,
  less_equal,
  greater,
  greater_equal,
  // three operands
  select,  ///< (condition, if_true, if_false)
  clamp,   ///< (low, x, high)
  fma,     ///< (a, b, c) -> a*b + c, rounded once
};
inline constexpr int function_count = static_cast<int>(Function::fma) + 1;

/// Cost class of a function: `move` has no arithmetic; `simple` is one lane operation (add, compare, select); `divide`
/// includes roots; `transcendental` uses the special function unit.
enum class FlopClass : std::uint8_t { move, simple, multiply, divide, transcendental };

struct FunctionInfo {
  Function function;
  std::string_view name;
  int arity;
  FlopClass flop_class;
  int flops;             ///< operations per element (2 for fma, 0 for move)
  bool returns_boolean;  ///< comparisons, logical functions and predicates
};
const FunctionInfo& info(Function function);
/// Throws UserError with a suggestion.
Function parse_function(std::string_view name);
std::vector<std::string> function_names();

/// Scalar definition. Kernels and tile computes call it, or use vectorized forms that differ by at most two units in
/// the last place. NaN propagates through maximum, minimum, clamp and relu, as in numpy's maximum. Integer division
/// truncates toward zero, as in StableHLO; remainder has the dividend's sign; floor_divide rounds down.
float evaluate(Function function, const float* operands);
double evaluate(Function function, const double* operands);
std::int64_t evaluate(Function function, const std::int64_t* operands);  ///< throws UserError if undefined for integers

enum class Combiner : std::uint8_t { add, multiply, maximum, minimum, logical_and, logical_or };
std::string_view name(Combiner combiner);
Combiner parse_combiner(std::string_view name);
double identity_element(Combiner combiner, DType dtype);  ///< the neutral start value (-inf, lowest integer, 0, ...)
/// The neutral start value of integers and bool as 64 bits (u64: the same bits).
std::int64_t integer_identity(Combiner combiner, DType dtype);

}  // namespace tilesim
