// The table of elementwise functions and the combiners of reductions.
#include "tilesim/base/functions/functions.hpp"

#include <array>
#include <cmath>
#include <limits>

#include "tilesim/base/error.hpp"

namespace tilesim {

namespace {

using F = Function;
using Cost = FlopClass;

constexpr std::array<FunctionInfo, function_count> function_table{{
    {F::identity, "identity", 1, Cost::move, 0, false},
    {F::negate, "negate", 1, Cost::simple, 1, false},
    {F::abs, "abs", 1, Cost::simple, 1, false},
    {F::sign, "sign", 1, Cost::simple, 1, false},
    {F::floor, "floor", 1, Cost::simple, 1, false},
    {F::ceil, "ceil", 1, Cost::simple, 1, false},
    {F::round_even, "round_even", 1, Cost::simple, 1, false},
    {F::trunc, "trunc", 1, Cost::simple, 1, false},
    {F::is_finite, "is_finite", 1, Cost::simple, 1, true},
    {F::is_nan, "is_nan", 1, Cost::simple, 1, true},
    {F::logical_not, "logical_not", 1, Cost::simple, 1, true},
    {F::bitwise_not, "bitwise_not", 1, Cost::simple, 1, false},
    {F::popcount, "popcount", 1, Cost::simple, 1, false},
    {F::exp, "exp", 1, Cost::transcendental, 1, false},
    {F::exp2, "exp2", 1, Cost::transcendental, 1, false},
    {F::expm1, "expm1", 1, Cost::transcendental, 1, false},
    {F::log, "log", 1, Cost::transcendental, 1, false},
    {F::log2, "log2", 1, Cost::transcendental, 1, false},
    {F::log1p, "log1p", 1, Cost::transcendental, 1, false},
    {F::sqrt, "sqrt", 1, Cost::divide, 1, false},
    {F::rsqrt, "rsqrt", 1, Cost::divide, 1, false},
    {F::cbrt, "cbrt", 1, Cost::transcendental, 1, false},
    {F::reciprocal, "reciprocal", 1, Cost::divide, 1, false},
    {F::sin, "sin", 1, Cost::transcendental, 1, false},
    {F::cos, "cos", 1, Cost::transcendental, 1, false},
    {F::tan, "tan", 1, Cost::transcendental, 1, false},
    {F::asin, "asin", 1, Cost::transcendental, 1, false},
    {F::acos, "acos", 1, Cost::transcendental, 1, false},
    {F::atan, "atan", 1, Cost::transcendental, 1, false},
    {F::sinh, "sinh", 1, Cost::transcendental, 1, false},
    {F::cosh, "cosh", 1, Cost::transcendental, 1, false},
    {F::tanh, "tanh", 1, Cost::transcendental, 1, false},
    {F::erf, "erf", 1, Cost::transcendental, 1, false},
    {F::erfc, "erfc", 1, Cost::transcendental, 1, false},
    {F::sigmoid, "sigmoid", 1, Cost::transcendental, 1, false},
    {F::relu, "relu", 1, Cost::simple, 1, false},
    {F::gelu_erf, "gelu_erf", 1, Cost::transcendental, 1, false},
    {F::gelu_tanh, "gelu_tanh", 1, Cost::transcendental, 1, false},
    {F::silu, "silu", 1, Cost::transcendental, 1, false},
    {F::softplus, "softplus", 1, Cost::transcendental, 1, false},
    {F::add, "add", 2, Cost::simple, 1, false},
    {F::subtract, "subtract", 2, Cost::simple, 1, false},
    {F::multiply, "multiply", 2, Cost::multiply, 1, false},
    {F::divide, "divide", 2, Cost::divide, 1, false},
    {F::remainder, "remainder", 2, Cost::divide, 1, false},
    {F::floor_divide, "floor_divide", 2, Cost::divide, 1, false},
    {F::power, "power", 2, Cost::transcendental, 1, false},
    {F::maximum, "maximum", 2, Cost::simple, 1, false},
    {F::minimum, "minimum", 2, Cost::simple, 1, false},
    {F::atan2, "atan2", 2, Cost::transcendental, 1, false},
    {F::logical_and, "logical_and", 2, Cost::simple, 1, true},
    {F::logical_or, "logical_or", 2, Cost::simple, 1, true},
    {F::logical_xor, "logical_xor", 2, Cost::simple, 1, true},
    {F::bitwise_and, "bitwise_and", 2, Cost::simple, 1, false},
    {F::bitwise_or, "bitwise_or", 2, Cost::simple, 1, false},
    {F::bitwise_xor, "bitwise_xor", 2, Cost::simple, 1, false},
    {F::shift_left, "shift_left", 2, Cost::simple, 1, false},
    {F::shift_right, "shift_right", 2, Cost::simple, 1, false},
    {F::equal, "equal", 2, Cost::simple, 1, true},
    {F::not_equal, "not_equal", 2, Cost::simple, 1, true},
    {F::less, "less", 2, Cost::simple, 1, true},
    {F::less_equal, "less_equal", 2, Cost::simple, 1, true},
    {F::greater, "greater", 2, Cost::simple, 1, true},
    {F::greater_equal, "greater_equal", 2, Cost::simple, 1, true},
    {F::select, "select", 3, Cost::simple, 1, false},
    {F::clamp, "clamp", 3, Cost::simple, 2, false},
    {F::fma, "fma", 3, Cost::multiply, 2, false},
}};

constexpr bool in_order() {
  for (std::size_t i = 0; i < function_table.size(); ++i)
    if (static_cast<std::size_t>(function_table[i].function) != i) return false;
  return true;
}
static_assert(in_order(), "the table lists every function in the order of the enumeration");

}  // namespace

const FunctionInfo& info(Function function) { return function_table[static_cast<std::size_t>(function)]; }

Function parse_function(std::string_view name) {
  for (const FunctionInfo& entry : function_table)
    if (entry.name == name) return entry.function;
  const std::vector<std::string> names = function_names();
  throw UserError({"unknown function", {}, "'" + std::string(name) + "'", join(names), nearest(name, names)});
}

std::vector<std::string> function_names() {
  std::vector<std::string> names;
  for (const FunctionInfo& entry : function_table) names.emplace_back(entry.name);
  return names;
}

namespace {
constexpr std::array<std::string_view, 6> combiner_names{"add",     "multiply",    "maximum",
                                                         "minimum", "logical_and", "logical_or"};
}

std::string_view name(Combiner combiner) { return combiner_names[static_cast<std::size_t>(combiner)]; }

Combiner parse_combiner(std::string_view name) {
  std::vector<std::string> names(combiner_names.begin(), combiner_names.end());
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] == name) return static_cast<Combiner>(i);
  throw UserError({"unknown combiner", {}, "'" + std::string(name) + "'", join(names), nearest(name, names)});
}

std::int64_t integer_identity(Combiner combiner, DType dtype) {
  const double value = identity_element(combiner, dtype);
  std::int64_t result = 0;
  convert(&value, DType::f64, &result, DType::i64, 1, Rounding::nearest_even, Overflow::saturate);
  // The highest 64-bit values are not doubles.
  return dtype == DType::u64 && value > 1 ? -1 : result;
}

double identity_element(Combiner combiner, DType dtype) {
  switch (combiner) {
    case Combiner::add:
    case Combiner::logical_or:
      return 0;
    case Combiner::multiply:
    case Combiner::logical_and:
      return 1;
    default:
      break;
  }
  const bool lowest = combiner == Combiner::maximum;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (is_float(dtype)) return lowest ? -infinity : infinity;
  if (dtype == DType::boolean) return lowest ? 0 : 1;
  const int width = value_bits(dtype);
  if (dtype_class(dtype) == DTypeClass::unsigned_integer) return lowest ? 0 : std::ldexp(1.0, width) - 1;
  return lowest ? -std::ldexp(1.0, width - 1) : std::ldexp(1.0, width - 1) - 1;
}

}  // namespace tilesim
