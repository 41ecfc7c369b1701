// Combiners on wide accumulators: double for floats, i64 (wrapping) for integers. Internal to this module.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "tilesim/base/functions/functions.hpp"

namespace tilesim::kernels {

/// The type for sums of T. Floats are rounded to the result's dtype once, at the end.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, std::int64_t>, std::int64_t, double>;

/// NaN in either operand wins; -0 is less than +0, so that the result does not depend on the order of operands.
template <class T>
T larger(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    if (a == b) return std::signbit(a) ? b : a;
  return a > b || a != a ? a : b;
}
template <class T>
T smaller(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    if (a == b) return std::signbit(a) ? a : b;
  return a < b || a != a ? a : b;
}

/// Calls f(step) with step(accumulator, element) -> accumulator. NaN wins in maximum and minimum.
template <class W, class F>
void with_combiner(Combiner combiner, F&& f) {
  using U = std::uint64_t;
  constexpr bool integer = std::is_same_v<W, std::int64_t>;
  switch (combiner) {
    case Combiner::add:
      if constexpr (integer) return f([](W a, W b) { return static_cast<W>(static_cast<U>(a) + static_cast<U>(b)); });
      return f([](W a, W b) { return a + b; });
    case Combiner::multiply:
      if constexpr (integer) return f([](W a, W b) { return static_cast<W>(static_cast<U>(a) * static_cast<U>(b)); });
      return f([](W a, W b) { return a * b; });
    case Combiner::maximum:
      return f([](W a, W b) { return larger(a, b); });
    case Combiner::minimum:
      return f([](W a, W b) { return smaller(a, b); });
    case Combiner::logical_and:
      return f([](W a, W b) { return static_cast<W>(a != 0 && b != 0); });
    case Combiner::logical_or:
      return f([](W a, W b) { return static_cast<W>(a != 0 || b != 0); });
  }
}

/// identity_element, exact for 64-bit integers too. u64 is kept in i64 bits: order it by `flip_u64` before and after.
template <class W>
W start_value(Combiner combiner, DType dtype) {
  if constexpr (std::is_same_v<W, std::int64_t>) {
    const bool wide = dtype == DType::i64 || dtype == DType::u64;
    if (wide && combiner == Combiner::maximum) return INT64_MIN;
    if (wide && combiner == Combiner::minimum) return INT64_MAX;
  }
  return static_cast<W>(identity_element(combiner, dtype));
}

/// Whether a u64 tensor must have its top bit flipped for this combiner, so that i64 order is u64 order.
inline bool flips_u64(DType dtype, Combiner combiner) {
  return dtype == DType::u64 && (combiner == Combiner::maximum || combiner == Combiner::minimum);
}
template <class W>
void flip_u64(W* values, std::int64_t count) {
  if constexpr (std::is_same_v<W, std::int64_t>) {
    for (std::int64_t i = 0; i < count; ++i) values[i] ^= INT64_MIN;
  }
}

}  // namespace tilesim::kernels
