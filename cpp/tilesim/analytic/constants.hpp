// Tables of the constants of a closed-form model: field and, for calibration, default, range and unit.
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
/// Defines the fields of a struct from the table X(name, default, lowest, highest, unit).
#define TILESIM_CONSTANT_FIELDS(TABLE) TABLE(TILESIM_CONSTANT_FIELD)

/// x^p, exact for the most common exponents.
inline double power(double x, double p) {
  if (p == 1) return x;
  if (p == 2) return x * x;
  if (p == 0.5) return std::sqrt(x);
  return std::pow(x, p);
}

/// The p-norm of three terms: the larger p, the closer to the longest term. NaN if all terms are 0.
inline double overlapped(double a, double b, double c, double longest, double p) {
  return longest * power(power(a / longest, p) + power(b / longest, p) + power(c / longest, p), 1 / p);
}

}  // namespace tilesim::analytic
