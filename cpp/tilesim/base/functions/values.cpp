// Scalar definition of the elementwise functions on floats.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tilesim/base/error.hpp"
#include "tilesim/base/functions/functions.hpp"

namespace tilesim {

namespace {

using F = Function;

/// IEEE 754-2019 maximum and minimum: NaN if an operand is NaN, and -0 < +0, so that the order of operands does not
/// matter.
template <class T>
T nan_max(T a, T b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
  return a == b ? (std::signbit(a) ? b : a) : std::max(a, b);
}
template <class T>
T nan_min(T a, T b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
  return a == b ? (std::signbit(a) ? a : b) : std::min(a, b);
}
template <class T>
T stable_sigmoid(T x) {
  return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x));
}

/// As in Python and numpy: exact even if x / y rounds up to an integer (1 // 0.1 is 9).
template <class T>
T floor_quotient(T x, T y) {
  if (y == 0) return x / y;
  const T rest = std::fmod(x, y);
  T quotient = (x - rest) / y;
  if (rest != 0 && (rest < 0) != (y < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(T(0), x / y);
  const T whole = std::floor(quotient);
  return quotient - whole > T(0.5) ? whole + 1 : whole;
}

std::int64_t as_bits(double value) {
  constexpr double limit = 9223372036854775808.0;
  if (std::isnan(value)) return 0;
  return value >= limit   ? std::numeric_limits<std::int64_t>::max()
         : value < -limit ? std::numeric_limits<std::int64_t>::min()
                          : static_cast<std::int64_t>(value);
}

/// Special functions of one operand.
template <class T>
T special(Function f, T x) {
  constexpr T half = T(0.5);
  switch (f) {
    case F::exp:
      return std::exp(x);
    case F::exp2:
      return std::exp2(x);
    case F::expm1:
      return std::expm1(x);
    case F::log:
      return std::log(x);
    case F::log2:
      return std::log2(x);
    case F::log1p:
      return std::log1p(x);
    case F::sqrt:
      return std::sqrt(x);
    case F::rsqrt:
      return 1 / std::sqrt(x);
    case F::cbrt:
      return std::cbrt(x);
    case F::reciprocal:
      return 1 / x;
    case F::sin:
      return std::sin(x);
    case F::cos:
      return std::cos(x);
    case F::tan:
      return std::tan(x);
    case F::asin:
      return std::asin(x);
    case F::acos:
      return std::acos(x);
    case F::atan:
      return std::atan(x);
    case F::sinh:
      return std::sinh(x);
    case F::cosh:
      return std::cosh(x);
    case F::tanh:
      return std::tanh(x);
    case F::erf:
      return std::erf(x);
    case F::erfc:
      return std::erfc(x);
    case F::sigmoid:
      return stable_sigmoid(x);
    case F::gelu_erf:
      return half * x * (1 + std::erf(x * T(0.70710678118654752440)));
    case F::gelu_tanh:
      return half * x * (1 + std::tanh(T(0.79788456080286535588) * (x + T(0.044715) * x * x * x)));
    case F::silu:
      return x * stable_sigmoid(x);
    case F::softplus:
      return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
    default:
      throw InternalError("not a special function");
  }
}

template <class T>
T unary(Function f, T x) {
  switch (f) {
    case F::identity:
      return x;
    case F::negate:
      return -x;
    case F::abs:
      return std::abs(x);
    case F::sign:
      return std::isnan(x) ? x : T((x > 0) - (x < 0));
    case F::floor:
      return std::floor(x);
    case F::ceil:
      return std::ceil(x);
    case F::round_even:
      return std::nearbyint(x);
    case F::trunc:
      return std::trunc(x);
    case F::is_finite:
      return std::isfinite(x);
    case F::is_nan:
      return std::isnan(x);
    case F::logical_not:
      return x == 0;
    case F::bitwise_not:
      return static_cast<T>(~as_bits(x));
    case F::relu:
      return std::isnan(x) ? x : nan_max(x, T(0));
    default:
      return special(f, x);
  }
}

template <class T>
T binary(Function f, T x, T y) {
  switch (f) {
    case F::add:
      return x + y;
    case F::subtract:
      return x - y;
    case F::multiply:
      return x * y;
    case F::divide:
      return x / y;
    case F::remainder:
      return std::fmod(x, y);
    case F::floor_divide:
      return floor_quotient(x, y);
    case F::power:
      return std::pow(x, y);
    case F::maximum:
      return nan_max(x, y);
    case F::minimum:
      return nan_min(x, y);
    case F::atan2:
      return std::atan2(x, y);
    case F::logical_and:
      return x != 0 && y != 0;
    case F::logical_or:
      return x != 0 || y != 0;
    case F::logical_xor:
      return (x != 0) != (y != 0);
    case F::bitwise_and:
      return static_cast<T>(as_bits(x) & as_bits(y));
    case F::bitwise_or:
      return static_cast<T>(as_bits(x) | as_bits(y));
    case F::bitwise_xor:
      return static_cast<T>(as_bits(x) ^ as_bits(y));
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
      throw UserError({"a shift needs integers", {}, std::string(info(f).name), {}, {}});
  }
}

template <class T>
T floating(Function f, const T* x) {
  switch (info(f).arity) {
    case 1:
      return unary(f, x[0]);
    case 2:
      return binary(f, x[0], x[1]);
    default:
      break;
  }
  if (f == F::select) return x[0] != 0 ? x[1] : x[2];
  if (f == F::clamp) return nan_min(nan_max(x[1], x[0]), x[2]);
  return std::fma(x[0], x[1], x[2]);
}

}  // namespace

float evaluate(Function function, const float* operands) { return floating(function, operands); }
double evaluate(Function function, const double* operands) { return floating(function, operands); }

}  // namespace tilesim
