// What every bound is made of: distances and Higham's constants.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

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

}  // namespace tilesim::validate
