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

/// Length of the longest key that queries may see, by row of the batch and key head.
std::vector<double> longest_keys(const AttentionShape& shape, const std::vector<Bounded>& operands) {
  const std::vector<double> keys = lengths(operands[attention_k].value);
  std::vector<double> longest(at(shape.batch * shape.key_heads), 0.0);
  const std::int64_t held = operands[attention_k].value.shape()[2];
  const auto take = [&](std::int64_t b, std::int64_t lead, std::int64_t count) {
    for (std::int64_t group = 0; group < shape.key_heads; ++group)
      for (std::int64_t t = 0; t < count; ++t) {
        double& most = longest[at(b * shape.key_heads + group)];
        most = std::max(most, keys[at((lead * shape.key_heads + group) * held + t)]);
      }
  };
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    const std::int64_t own = shape.lengths ? operands[attention_kv_len].value.int_at(b) : shape.keys;
    if (!shape.paged()) take(b, b, own);
    for (std::int64_t from = 0; shape.paged() && from < own; from += shape.page)
      take(b, operands[attention_pages].value.int_at(b * (shape.cache / shape.page) + from / shape.page),
           std::min(shape.page, own - from));
  }
  return longest;
}

}  // namespace

std::vector<Array> attention_bounds(const AttentionShape& shape, const Op& op, const std::vector<Bounded>& operands,
                                    const Array& magnitudes, const std::vector<Array>& results,
                                    const Numerics& numerics) {
  constexpr double few = 8;  // roundings in addition to those of sums: scale, cap, bias, shift, exponential, quotient
  const Array& result = results[0];
  const double u = unit_roundoff(numerics.accumulate);
  const double scale = std::fabs(op.attributes.number("scale", 1 / std::sqrt(static_cast<double>(shape.depth))));
  const bool biased = operands.size() > attention_mask && !operands[attention_mask].value.empty() &&
                      operands[attention_mask].value.dtype() != DType::boolean;
  const double added = biased ? largest_finite(operands[attention_mask].value) : 0;
  const std::vector<double> rows = lengths(operands[attention_q].value);
  const std::vector<double> longest = longest_keys(shape, operands);
  double inputs = rounds_operands(numerics, DType::f32) ? 4 * unit_roundoff(*numerics.multiply) : 0;  // of operands
  if (numerics.multiply_tf32) inputs = std::max(inputs, 4 * 0x1p-11);
  double rounded = unit_roundoff(result.dtype()) > u ? 4 * unit_roundoff(result.dtype()) : 0;  // of stored weights
  rounded = std::max(rounded, inputs);
  const double sums = gamma(2 * shape.keys + static_cast<std::int64_t>(2 * few), u) + rounded;
  // weights and results underflow below the smallest number of their type
  const double step = smallest_step(result.dtype());
  const double vanishing =
      std::max(1e-37, step * (2 + static_cast<double>(shape.keys) * largest_finite(operands[attention_v].value)));
  const Array sizes = result.to(DType::f64);
  Array bound(DType::f64, result.shape()), of_lse;
  Array lse;
  if (results.size() > 1) lse = results[1].to(DType::f64), of_lse = Array(DType::f64, lse.shape());
  const std::int64_t shared = shape.heads / shape.key_heads;
  for (std::int64_t row = 0; row < static_cast<std::int64_t>(rows.size()); ++row) {
    const std::int64_t head = row / shape.queries;
    const std::int64_t group = head / shape.heads * shape.key_heads + head % shape.heads / shared;
    const double score = scale * rows[at(row)] * longest[at(group)] * (1 + rounded);
    const double deviation = score * gamma(shape.depth, u) + few * u * (score + added);
    const double weight = std::expm1(4 * deviation) + sums;
    for (std::int64_t i = row * shape.width; i < (row + 1) * shape.width; ++i) {
      const double all = magnitudes.as<double>()[i], reference = std::fabs(sizes.as<double>()[i]);
      bound.as<double>()[i] = (std::isfinite(all) ? weight * all : 0) +
                              (std::isfinite(reference) ? 2 * unit_roundoff(result.dtype()) * reference : 0) +
                              vanishing;
    }
    if (lse.empty()) continue;
    const double value = std::fabs(lse.as<double>()[row]);
    of_lse.as<double>()[row] = 2 * deviation + score * inputs +
                               gamma(2 * shape.keys + static_cast<std::int64_t>(few), u) +
                               (std::isfinite(value) ? few * u * value : 0);
  }
  std::vector<Array> bounds{std::move(bound)};
  if (!lse.empty()) bounds.push_back(std::move(of_lse));
  return bounds;
}

}  // namespace tilesim::validate
