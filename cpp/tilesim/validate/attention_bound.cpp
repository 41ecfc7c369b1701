#include "tilesim/validate/attention_bound.hpp"

#include <algorithm>
#include <cmath>

#include "tilesim/base/index.hpp"
#include "tilesim/validate/rounding.hpp"

namespace tilesim::validate {

namespace {

/// Euclidean lengths of the rows of an array.
std::vector<double> lengths(const Array& array) {
  const Array wide = array.to(DType::f64);
  const std::int64_t width = array.shape().back();
  std::vector<double> result;
  for (std::int64_t i = 0; i < wide.size(); i += width) {
    double sum = 0;
    for (std::int64_t j = 0; j < width; ++j) {
      const double x = wide.as<double>()[i + j];
      if (std::isfinite(x)) sum += x * x;
    }
    result.push_back(std::sqrt(sum));
  }
  return result;
}

double largest_finite(const Array& array) {
  const Array wide = array.to(DType::f64);
  double largest = 0;
  for (std::int64_t i = 0; i < wide.size(); ++i)
    if (std::isfinite(wide.as<double>()[i])) largest = std::max(largest, std::fabs(wide.as<double>()[i]));
  return largest;
}

}  // namespace

std::vector<Array> attention_bounds(const Op& op, const std::vector<Bounded>& operands, const Array& magnitudes,
                                    const Array& result, const Numerics& numerics) {
  constexpr double few = 8;  // roundings beside those of sums: scale, cap, bias, shift, exponential, quotient
  const Shape &q = operands[0].value.shape(), &k = operands[1].value.shape();
  const double u = unit_roundoff(numerics.accumulate);
  const double scale = std::fabs(op.attributes.number("scale", 1 / std::sqrt(static_cast<double>(q[3]))));
  const double added = operands.size() > 3 && !operands[3].value.empty() && operands[3].value.dtype() != DType::boolean
                           ? largest_finite(operands[3].value)
                           : 0;
  const std::vector<double> rows = lengths(operands[0].value), keys = lengths(operands[1].value);
  const std::int64_t shared = q[1] / k[1], width = result.shape()[3];
  double rounded = unit_roundoff(result.dtype()) > u ? 4 * unit_roundoff(result.dtype()) : 0;  // weights are stored so
  if (rounds_operands(numerics, DType::f32)) rounded = std::max(rounded, 4 * unit_roundoff(*numerics.multiply));
  if (numerics.multiply_tf32) rounded = std::max(rounded, 4 * 0x1p-11);
  const double sums = gamma(2 * k[2] + static_cast<std::int64_t>(2 * few), u) + rounded;
  const Array sizes = result.to(DType::f64);
  Array bound(DType::f64, result.shape());
  for (std::int64_t row = 0; row < static_cast<std::int64_t>(rows.size()); ++row) {
    const std::int64_t head = row / q[2], group = head / q[1] * k[1] + head % q[1] / shared;
    const auto first = keys.begin() + group * k[2];
    const double longest = k[2] == 0 ? 0 : *std::max_element(first, first + k[2]);
    const double score = scale * rows[at(row)] * longest * (1 + rounded);
    const double deviation = score * gamma(q[3], u) + few * u * (score + added);
    const double weight = std::expm1(4 * deviation) + sums;
    for (std::int64_t i = row * width; i < (row + 1) * width; ++i) {
      const double all = magnitudes.as<double>()[i], reference = std::fabs(sizes.as<double>()[i]);
      bound.as<double>()[i] = (std::isfinite(all) ? weight * all : 0) +
                              (std::isfinite(reference) ? 2 * unit_roundoff(result.dtype()) * reference : 0) + 1e-37;
    }
  }
  return {std::move(bound)};
}

}  // namespace tilesim::validate
