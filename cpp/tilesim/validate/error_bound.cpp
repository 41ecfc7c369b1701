#include "tilesim/validate/error_bound.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <string>

#include "tilesim/base/error.hpp"
#include "tilesim/kernels/kernels.hpp"
#include "tilesim/validate/attention_bound.hpp"
#include "tilesim/validate/exact_sums.hpp"
#include "tilesim/validate/rounding.hpp"
#include "tilesim/validate/solve_bound.hpp"

namespace tilesim::validate {

namespace {

bool any_error(const std::vector<Bounded>& operands) {
  return std::any_of(operands.begin(), operands.end(), [](const Bounded& b) { return !b.error.empty(); });
}

/// Evaluates a single operation with operands and results of another float type.
class Probe {
 public:
  Probe(const Graph& graph, const GraphFunction& function, const Op& op, DType type) : graph_(graph), op_(op) {
    function_.name = function.name;
    const auto take = [&](ValueId id) {
      if (id == no_value) return no_value;
      Value value = function.value(id);
      if (is_float(value.type.dtype)) value.type.dtype = type;
      function_.values.push_back(std::move(value));
      return static_cast<ValueId>(function_.values.size()) - 1;
    };
    for (ValueId& id : op_.operands) id = take(id);
    for (ValueId& id : op_.results) id = take(id);
    for (const char* key : {"accumulate", "dtype"})
      if (op_.attributes.find(key) != nullptr && is_float(op_.attributes.dtype(key))) op_.attributes.set(key, type);
    type_ = type;
  }

  /// Converts operands to the types of the copied operation.
  std::vector<Array> run(std::vector<Array> operands) const {
    for (std::size_t i = 0; i < operands.size(); ++i)
      if (!operands[i].empty()) operands[i] = operands[i].to(function_.value(op_.operands[i]).type.dtype);
    Numerics numerics;
    numerics.accumulate = type_;
    return evaluate_op(graph_, function_, op_, operands, numerics);
  }

 private:
  const Graph& graph_;
  GraphFunction function_;
  Op op_;
  DType type_ = DType::f64;
};

Array zeros(const Shape& shape) { return {DType::f64, shape}; }

/// value + sign * error, in f64. Elements that are not finite stay if they are exact: a sum that overflows in one order
/// may be any number in another.
Array shifted(const Bounded& operand, double sign) {
  Array result = operand.value.to(DType::f64).clone();
  if (operand.error.empty()) return result;
  double* out = result.as<double>();
  const double* error = operand.error.as<double>();
  for (std::int64_t i = 0; i < result.size(); ++i)
    if (std::isfinite(out[i]))
      out[i] += sign * error[i];
    else if (error[i] > 0)
      out[i] = sign * std::numeric_limits<double>::max();
  return result;
}

Array magnitude(const Array& array) {
  Array result = array.to(DType::f64).clone();
  double* out = result.as<double>();
  for (std::int64_t i = 0; i < result.size(); ++i) out[i] = std::isfinite(out[i]) ? std::fabs(out[i]) : 0;
  return result;
}

/// Largest distance of the results at the corners of the operands' intervals from those at the centre.
std::vector<Array> corner_distances(const Probe& probe, const std::vector<Bounded>& operands, bool all_corners) {
  std::vector<std::size_t> uncertain;
  for (std::size_t i = 0; i < operands.size(); ++i)
    if (!operands[i].error.empty()) uncertain.push_back(i);
  std::vector<Array> centre_operands;
  for (const Bounded& operand : operands) centre_operands.push_back(operand.value);
  const std::vector<Array> centre = probe.run(centre_operands);
  std::vector<Array> distances;
  for (const Array& result : centre) distances.push_back(zeros(result.shape()));
  // Movement and sums are monotone in all operands: two corners suffice.
  const bool few = uncertain.size() <= 4;
  const std::size_t corners = all_corners && few ? std::size_t{1} << uncertain.size() : 2;
  for (std::size_t corner = 0; corner < corners; ++corner) {
    std::vector<Array> at = centre_operands;
    for (std::size_t k = 0; k < uncertain.size(); ++k) {
      const bool up = corners == 2 ? corner == 1 : (corner >> k & 1) != 0;
      at[uncertain[k]] = shifted(operands[uncertain[k]], up ? 1 : -1);
    }
    const std::vector<Array> moved = probe.run(at);
    for (std::size_t r = 0; r < moved.size(); ++r) {
      const Array a = moved[r].to(DType::f64), b = centre[r].to(DType::f64);
      double* out = distances[r].as<double>();
      for (std::int64_t i = 0; i < a.size(); ++i)
        out[i] = std::max(out[i], distance(a.as<double>()[i], b.as<double>()[i]));
    }
  }
  return distances;
}

/// Number of terms in the longest sum of an element.
std::int64_t terms(const GraphFunction& function, const Op& op) {
  if (op.kind == Kind::ragged_contract) return function.value(op.operands[0]).type.shape[1];
  const Domain space = domain(function, op);
  std::int64_t n = 1;
  for (std::size_t i = 0; i < space.extents.size(); ++i)
    if (space.reduction[i]) n *= space.extents[i];
  if (op.kind == Kind::cumulative) n = *std::max_element(space.extents.begin(), space.extents.end());
  return std::max<std::int64_t>(n, 1);
}

/// Product of the magnitudes |a| and |b| in f32, whose rounding error is far below the bound's slack.
Array product_of(const Probe& probe, const Array& a, const Array& b, const std::vector<Bounded>& operands,
                 bool ragged) {
  std::vector<Array> at{a, b};
  if (ragged) return probe.run({a, b, operands[2].value})[0].to(DType::f64);
  for (std::size_t i = 2; i < operands.size(); ++i)
    at.push_back(operands[i].value.empty() ? Array() : zeros(operands[i].value.shape()));
  return probe.run(at)[0].to(DType::f64);
}

void add_scaled(Array& total, const Array& term, double factor) {
  double* out = total.as<double>();
  for (std::int64_t i = 0; i < total.size(); ++i) out[i] += factor * term.as<double>()[i];
}

/// Rounding of sums of `terms` magnitudes in f32. If these exceed the largest number, a sum in another order may
/// overflow.
void add_sum_rounding(Array& total, const Array& sums, std::int64_t terms, bool mean) {
  const Array sizes = sums.to(DType::f64);
  add_scaled(total, sizes, gamma(terms, unit_roundoff(DType::f32)));
  const double largest = std::numeric_limits<float>::max() / static_cast<double>(mean ? terms : 1);
  for (std::int64_t i = 0; i < total.size(); ++i)
    if (sizes.as<double>()[i] > largest) total.as<double>()[i] = std::numeric_limits<double>::infinity();
}

void add_everywhere(Array& total, double term) {
  double* out = total.as<double>();
  for (std::int64_t i = 0; i < total.size(); ++i) out[i] += term;
}

std::vector<Array> product_bounds(const Graph& graph, const GraphFunction& function, const Op& op,
                                  const std::vector<Bounded>& operands, const Array& result, const Numerics& numerics) {
  constexpr double slack = 1.001;
  const bool ragged = op.kind == Kind::ragged_contract;
  const Probe probe(graph, function, op, DType::f32);
  const Array a = magnitude(operands[0].value), b = magnitude(operands[1].value);
  Array bound = zeros(result.shape());
  add_scaled(bound, product_of(probe, a, b, operands, ragged),
             slack * gamma(terms(function, op), unit_roundoff(numerics.accumulate)));
  // each product may underflow, and be added to a sum so small that it is rounded once more
  add_everywhere(bound, static_cast<double>(terms(function, op)) * smallest_step(numerics.accumulate));
  // A deviating operand may also round to another adjacent number.
  const auto deviation = [&](const Bounded& operand, const Array& size) {
    Array error = operand.error.clone();
    if (numerics.multiply_tf32) add_scaled(error, size, 2 * 0x1p-11);
    if (rounds_operands(numerics, operand.value.dtype())) {
      add_scaled(error, size, 2 * unit_roundoff(*numerics.multiply));
      add_everywhere(error, smallest_step(*numerics.multiply));
    }
    return error;
  };
  if (!operands[0].error.empty()) {
    Array wide = b.clone();
    if (!operands[1].error.empty()) add_scaled(wide, deviation(operands[1], b), 1);
    add_scaled(bound, product_of(probe, deviation(operands[0], a), wide, operands, ragged), slack);
  }
  if (!operands[1].error.empty())
    add_scaled(bound, product_of(probe, a, deviation(operands[1], b), operands, ragged), slack);
  if (operands.size() > 2 && !ragged) {
    std::vector<Bounded> rest = operands;
    for (int i : {0, 1}) {
      const auto at = static_cast<std::size_t>(i);
      rest[at] = {zeros(rest[at].value.shape()), {}};
    }
    const std::vector<Array> added = corner_distances(Probe(graph, function, op, DType::f64), rest, true);
    add_scaled(bound, added[0], 1);
    for (std::size_t i = 2; i < operands.size(); ++i)
      if (!operands[i].value.empty()) {
        std::vector<Array> at{zeros(a.shape()), zeros(b.shape())};
        for (std::size_t k = 2; k < operands.size(); ++k) at.push_back(operands[k].value);
        add_scaled(bound, magnitude(Probe(graph, function, op, DType::f64).run(at)[0]),
                   2 * unit_roundoff(numerics.accumulate));
        break;
      }
  }
  return {std::move(bound)};
}

/// Whether the sums of a product are exact, so that rounding to the result's type gives equal bits.
bool is_exact_product(const GraphFunction& function, const Op& op, const std::vector<Bounded>& operands,
                      const Numerics& numerics) {
  if (any_error(operands)) return false;
  const Array* bias = op.kind != Kind::ragged_contract && operands.size() > 2 ? &operands[2].value : nullptr;
  return sums_exactly(operands[0].value, &operands[1].value, terms(function, op), bias, numerics.accumulate);
}

bool is_sum(const Op& op) {
  if (op.kind != Kind::reduce && op.kind != Kind::cumulative && op.kind != Kind::window_reduce) return false;
  const std::string& combiner = op.attributes.text("combiner");
  return combiner == "add" || combiner == "mean" || combiner == "multiply";
}

/// A product of deviating factors deviates most if the deviations have the signs of the factors.
std::vector<Array> factor_distances(const Probe& probe, const Bounded& operand) {
  const Array size = magnitude(operand.value);
  Array wide = size.clone();
  add_scaled(wide, operand.error, 1);
  Array bound = probe.run({wide})[0].to(DType::f64).clone();
  add_scaled(bound, probe.run({size})[0].to(DType::f64), -1);
  return {std::move(bound)};
}

bool multiplies(const Op& op) { return is_sum(op) && op.attributes.text("combiner") == "multiply"; }

/// Whether an operation on exact operands has a unique result: selected elements, and functions that are always rounded
/// correctly.
bool is_certain(const GraphFunction& function, const Op& op, const std::vector<Bounded>& operands) {
  if (any_error(operands)) return false;
  if (op.kind == Kind::elementwise) {
    static const std::set<std::string> certain{"add",     "subtract", "multiply", "negate", "abs",
                                               "maximum", "minimum",  "select",   "clamp",  "relu"};
    return certain.count(op.attributes.text("function")) > 0;
  }
  if (op.kind == Kind::convert) return true;
  if (op.kind != Kind::reduce && op.kind != Kind::cumulative && op.kind != Kind::window_reduce) return false;
  const std::string& combiner = op.attributes.text("combiner");
  if (combiner == "maximum" || combiner == "minimum") return true;
  return combiner == "add" && sums_exactly(operands[0].value, nullptr, terms(function, op), nullptr, DType::f32);
}

/// Roundings of the result that one operation may differ by: float functions are computed within a few units.
double roundings(const Op& op) {
  switch (op.kind) {
    case Kind::elementwise:
      return 4;
    case Kind::convert:
    case Kind::reduce:
    case Kind::cumulative:
    case Kind::window_reduce:
    case Kind::window_scatter:
    case Kind::linear_solve:
      return 2;
    case Kind::opaque:
      return op.attributes.number("roundings", 0);
    default:
      return 0;
  }
}

/// x * (1 + f(x)) cancels in its tail: the rounding of the sum is of the size of x, not of the result.
bool cancels(const Op& op) {
  if (op.kind != Kind::elementwise) return false;
  const std::string& function = op.attributes.text("function");
  return function.compare(0, 4, "gelu") == 0;
}

/// Whether the function is sine or cosine, which are not monotone; their slope is at most 1.
bool turns(const Op& op) {
  if (op.kind != Kind::elementwise) return false;
  const std::string& function = op.attributes.text("function");
  return function == "sin" || function == "cos";
}

/// Bounds from errors of operands, and from the arithmetic of a kernel of several operations.
std::vector<Array> passed_on(const Graph& graph, const GraphFunction& function, const Op& op,
                             const std::vector<Bounded>& operands, const std::vector<Array>& results,
                             const Numerics& numerics) {
  if (is_product(op) && is_float(results[0].dtype())) {
    return product_bounds(graph, function, op, operands, results[0], numerics);
  }
  if (any_error(operands) && multiplies(op)) {
    return factor_distances(Probe(graph, function, op, DType::f64), operands[0]);
  }
  if (op.kind == Kind::attention) {
    require(!any_error(operands), "an attention kernel with computed operands");
    std::vector<Array> at;
    for (const Bounded& operand : operands) at.push_back(operand.value);
    at[2] = magnitude(at[2]);
    const std::vector<Array> sums = Probe(graph, function, op, DType::f64).run(at);
    return attention_bounds(attention_shape(function, op), op, operands, sums[0].to(DType::f64), results, numerics);
  }
  if (op.kind == Kind::linear_solve) {
    return solve_bounds(op, operands, results[0]);
  }
  if (any_error(operands)) {
    // A bitcast needs the operand's type.
    const DType type =
        op.kind == Kind::bitcast && is_float(operands[0].value.dtype()) ? operands[0].value.dtype() : DType::f64;
    std::vector<Array> bounds =
        corner_distances(Probe(graph, function, op, type), operands, op.kind == Kind::elementwise);
    if (turns(op)) bounds[0] = operands[0].error.clone();
    return bounds;
  }
  return std::vector<Array>(results.size());
}

/// Adds the rounding of sums in any order, and of cancellation.
void add_sums(const Graph& graph, const GraphFunction& function, const Op& op, const std::vector<Bounded>& operands,
              const std::vector<Array>& results, std::vector<Array>& bounds) {
  if (is_sum(op) && is_float(results[0].dtype())) {
    std::vector<Array> sizes;
    for (const Bounded& operand : operands) sizes.push_back(operand.value.empty() ? Array() : magnitude(operand.value));
    if (bounds[0].empty()) bounds[0] = zeros(results[0].shape());
    const std::vector<Array> sums = Probe(graph, function, op, DType::f64).run(sizes);
    add_sum_rounding(bounds[0], sums[0], terms(function, op), op.attributes.text("combiner") == "mean");
  }
  if (op.kind == Kind::window_scatter && is_float(results[0].dtype())) {
    if (bounds[0].empty()) bounds[0] = zeros(results[0].shape());
    const std::vector<Array> sizes{operands[0].value, magnitude(operands[1].value)};
    const std::vector<Array> sums = Probe(graph, function, op, DType::f64).run(sizes);
    std::int64_t meeting = 1;
    for (const std::int64_t extent : op.attributes.integers("window")) meeting *= extent;
    add_sum_rounding(bounds[0], sums[0], meeting, false);
  }
  if (cancels(op) && is_float(results[0].dtype())) {
    if (bounds[0].empty()) bounds[0] = zeros(results[0].shape());
    add_scaled(bounds[0], magnitude(operands[0].value), 4 * unit_roundoff(results[0].dtype()));
  }
}

/// Adds the rounding of every result to its type.
void add_rounding(const Op& op, const std::vector<Bounded>& operands, const std::vector<Array>& results,
                  std::vector<Array>& bounds) {
  // exp(0) is 1, and an underflow is 0, in every implementation.
  const bool is_certain_exp =
      op.kind == Kind::elementwise && op.attributes.text("function") == "exp" && !any_error(operands);
  for (std::size_t r = 0; r < results.size(); ++r) {
    if (!is_float(results[r].dtype())) continue;
    const double count = is_product(op) ? 2 : roundings(op), u = unit_roundoff(results[r].dtype()) * count;
    const double step = std::max(1e-37, count * smallest_step(results[r].dtype()));
    if (u == 0) continue;
    if (bounds[r].empty()) bounds[r] = zeros(results[r].shape());
    const Array sizes = magnitude(results[r]);
    double* out = bounds[r].as<double>();
    bool all_certain = true;
    for (std::int64_t i = 0; i < bounds[r].size(); ++i) {
      if (is_certain_exp && (sizes.as<double>()[i] == 0 || sizes.as<double>()[i] == 1)) continue;
      all_certain = false;
      // Below the smallest normal number, spacing no longer shrinks with the value.
      out[i] += u * sizes.as<double>()[i] + step;
    }
    if (all_certain && bounds[r].size() > 0 && is_certain_exp) bounds[r] = Array();
  }
}

}  // namespace

bool is_product(const Op& op) {
  return op.kind == Kind::contract || op.kind == Kind::convolution || op.kind == Kind::ragged_contract;
}

std::vector<Array> error_bounds(const Graph& graph, const GraphFunction& function, const Op& op,
                                const std::vector<Bounded>& operands, const std::vector<Array>& results,
                                const Numerics& numerics) {
  if (is_product(op) && is_float(results[0].dtype()) && is_exact_product(function, op, operands, numerics))
    return std::vector<Array>(results.size());
  if (is_certain(function, op, operands)) return std::vector<Array>(results.size());
  std::vector<Array> bounds = passed_on(graph, function, op, operands, results, numerics);
  add_sums(graph, function, op, operands, results, bounds);
  add_rounding(op, operands, results, bounds);
  return bounds;
}

}  // namespace tilesim::validate
