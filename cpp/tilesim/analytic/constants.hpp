// Tables of a closed-form model's few constants: their fields and, for calibration, default, range and unit.
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
/// Defines fields of a struct from X(name, default, lowest, highest, unit).
#define TILESIM_CONSTANT_FIELDS(TABLE) TABLE(TILESIM_CONSTANT_FIELD)

/// x^p, exact for common exponents of overlapping terms.
inline double power(double x, double p) {
  if (p == 1) return x;
  if (p == 2) return x * x;
  if (p == 0.5) return std::sqrt(x);
  return std::pow(x, p);
}

/// Combines terms; the larger the exponent p, the more the longest hides the others. NaN if all are 0.
inline double overlapped(double a, double b, double c, double longest, double p) {
  return longest * power(power(a / longest, p) + power(b / longest, p) + power(c / longest, p), 1 / p);
}

}  // namespace tilesim::analytic
