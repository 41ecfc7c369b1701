// Defines the distance of two values, Higham's gamma_n and a type's smallest step.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "tilesim/base/dtype.hpp"

namespace tilesim::validate {

inline constexpr double infinite = std::numeric_limits<double>::infinity();

/// |a - b|; 0 for two NaN, infinite for one.
inline double distance(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  const double d = std::fabs(a - b);
  return std::isnan(d) ? infinite : d;
}

/// gamma_n = n u / (1 - n u), of `n` roundings of unit `u` (Higham, Accuracy and Stability of Numerical Algorithms, 2nd
/// ed., section 3.1); infinite from n u = 1 on.
inline double gamma(std::int64_t n, double u) {
  const double nu = static_cast<double>(n) * u;
  return nu < 1 ? nu / (1 - nu) : infinite;
}

/// The smallest positive number of a float type: spacing next to zero, where a rounding errs by up to half of it
/// however small the number is. 0 of integers.
inline double smallest_step(DType type) {
  if (!is_float(type)) return 0;
  double step = 1;
  for (double half = 0.5; half != 0; half /= 2) {
    double back = 0;
    alignas(16) unsigned char held[16] = {};
    convert(&half, DType::f64, held, type, 1);
    convert(held, type, &back, DType::f64, 1);
    if (back == 0) break;
    step = half;
  }
  return step;
}

}  // namespace tilesim::validate
