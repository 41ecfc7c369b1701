// Tables of the few constants of a closed-form model: their fields and what the calibration knows of each.
#pragma once

#include <cmath>
#include <string_view>

namespace tilesim::analytic {

template <class Constants>
struct ConstantInfo {
  std::string_view name;
  double Constants::* field;
  double standard, low, high;
  std::string_view unit;
};

#define TILESIM_CONSTANT_FIELD(name, value, low, high, unit) double name = value;
/// Fields of a struct from X(name, default, lowest, highest, unit).
#define TILESIM_CONSTANT_FIELDS(TABLE) TABLE(TILESIM_CONSTANT_FIELD)

/// x^p; the exponents at which overlapping terms often stand are exact.
inline double power(double x, double p) {
  if (p == 1) return x;
  if (p == 2) return x * x;
  if (p == 0.5) return std::sqrt(x);
  return std::pow(x, p);
}

/// Terms of which the longest hides the others the more, the larger the exponent p is. NaN where all are 0.
inline double overlapped(double a, double b, double c, double longest, double p) {
  return longest * power(power(a / longest, p) + power(b / longest, p) + power(c / longest, p), 1 / p);
}

}  // namespace tilesim::analytic
