#include "tilesim/base/functions/integer.hpp"

#include <algorithm>
#include <bit>
#include <optional>

#include "tilesim/base/error.hpp"

namespace tilesim {

namespace {

using F = Function;

std::int64_t wrap(std::uint64_t value) { return static_cast<std::int64_t>(value); }

std::int64_t checked_divisor(Function f, std::int64_t y) {
  if (y == 0)
    throw UserError({"integer division by zero", std::string(info(f).name), "0", "a divisor other than 0", {}});
  return y;
}

std::uint64_t unsigned_power(std::uint64_t square, std::uint64_t exponent) {
  std::uint64_t result = 1;
  for (; exponent > 0; exponent >>= 1, square *= square)
    if (exponent & 1) result *= square;
  return result;
}

std::int64_t integer_power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  return wrap(unsigned_power(static_cast<std::uint64_t>(base), static_cast<std::uint64_t>(exponent)));
}

std::int64_t integer_divide(Function f, std::int64_t x, std::int64_t y) {
  checked_divisor(f, y);
  if (y == -1) return f == F::remainder ? 0 : wrap(-static_cast<std::uint64_t>(x));
  if (f == F::divide) return x / y;
  if (f == F::remainder) return x % y;
  return x / y - ((x % y != 0 && (x < 0) != (y < 0)) ? 1 : 0);
}

std::int64_t integer_unary(Function f, std::int64_t x) {
  switch (f) {
    case F::identity:
    case F::floor:
    case F::ceil:
    case F::round_even:
    case F::trunc:
      return x;
    case F::negate:
      return wrap(-static_cast<std::uint64_t>(x));
    case F::abs:
      return x < 0 ? wrap(-static_cast<std::uint64_t>(x)) : x;
    case F::sign:
      return (x > 0) - (x < 0);
    case F::is_finite:
      return 1;
    case F::is_nan:
      return 0;
    case F::logical_not:
      return x == 0;
    case F::bitwise_not:
      return ~x;
    case F::relu:
      return std::max<std::int64_t>(x, 0);
    default:
      throw UserError({"this function is not defined on integers",
                       std::string(info(f).name),
                       {},
                       "convert to a float type first",
                       {}});
  }
}

std::int64_t integer_binary(Function f, std::int64_t x, std::int64_t y) {
  const auto a = static_cast<std::uint64_t>(x), b = static_cast<std::uint64_t>(y);
  switch (f) {
    case F::add:
      return wrap(a + b);
    case F::subtract:
      return wrap(a - b);
    case F::multiply:
      return wrap(a * b);
    case F::divide:
    case F::remainder:
    case F::floor_divide:
      return integer_divide(f, x, y);
    case F::power:
      return integer_power(x, y);
    case F::maximum:
      return std::max(x, y);
    case F::minimum:
      return std::min(x, y);
    case F::logical_and:
      return x != 0 && y != 0;
    case F::logical_or:
      return x != 0 || y != 0;
    case F::logical_xor:
      return (x != 0) != (y != 0);
    case F::bitwise_and:
      return x & y;
    case F::bitwise_or:
      return x | y;
    case F::bitwise_xor:
      return x ^ y;
    case F::shift_left:
      return y < 0 || y > 63 ? 0 : wrap(a << y);
    case F::shift_right:
      return y < 0 || y > 63 ? (x < 0 ? -1 : 0) : x >> y;
    case F::equal:
      return x == y;
    case F::not_equal:
      return x != y;
    case F::less:
      return x < y;
    case F::less_equal:
      return x <= y;
    case F::greater:
      return x > y;
    case F::greater_equal:
      return x >= y;
    default:
      throw UserError({"this function is not defined on integers",
                       std::string(info(f).name),
                       {},
                       "convert to a float type first",
                       {}});
  }
}

/// Result of a function on u64 operands; empty if it equals the signed result.
std::optional<std::int64_t> unsigned_meaning(Function f, const std::int64_t* x) {
  const auto a = static_cast<std::uint64_t>(x[0]);
  const auto b = static_cast<std::uint64_t>(info(f).arity > 1 ? x[1] : 0);
  switch (f) {
    case F::abs:
    case F::relu:
      return x[0];
    case F::sign:
      return a != 0;
    case F::divide:
    case F::floor_divide:
      return checked_divisor(f, x[1]), wrap(a / b);
    case F::remainder:
      return checked_divisor(f, x[1]), wrap(a % b);
    case F::maximum:
      return wrap(std::max(a, b));
    case F::minimum:
      return wrap(std::min(a, b));
    case F::less:
      return a < b;
    case F::less_equal:
      return a <= b;
    case F::greater:
      return a > b;
    case F::greater_equal:
      return a >= b;
    case F::shift_right:
      return b < 64 ? wrap(a >> b) : 0;
    case F::power:
      return wrap(unsigned_power(a, b));
    case F::clamp:
      return wrap(std::min(std::max(a, b), static_cast<std::uint64_t>(x[2])));
    default:
      return std::nullopt;
  }
}

std::int64_t count_bits(std::int64_t x, DType dtype) {
  const int width = is_integer(dtype) ? value_bits(dtype) : dtype == DType::boolean ? 1 : 64;
  return std::popcount(static_cast<std::uint64_t>(x) & (~std::uint64_t{0} >> (64 - width)));
}

std::int64_t integral(Function f, const std::int64_t* x) {
  switch (info(f).arity) {
    case 1:
      return integer_unary(f, x[0]);
    case 2:
      return integer_binary(f, x[0], x[1]);
    default:
      break;
  }
  if (f == F::select) return x[0] != 0 ? x[1] : x[2];
  if (f == F::clamp) return std::min(std::max(x[1], x[0]), x[2]);
  return wrap(static_cast<std::uint64_t>(x[0]) * static_cast<std::uint64_t>(x[1]) + static_cast<std::uint64_t>(x[2]));
}

}  // namespace

std::int64_t evaluate(Function function, const std::int64_t* operands) {
  return evaluate(function, operands, DType::i64);
}

std::int64_t evaluate(Function function, const std::int64_t* x, DType dtype) {
  if (function == F::popcount) return count_bits(x[0], dtype);
  if (dtype == DType::u64)
    if (const std::optional<std::int64_t> known = unsigned_meaning(function, x)) return *known;
  if (dtype != DType::boolean) return integral(function, x);
  if (function == F::bitwise_not) return x[0] == 0;
  return integral(function, x) != 0;
}

}  // namespace tilesim
