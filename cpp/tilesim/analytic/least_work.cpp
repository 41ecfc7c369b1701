#include "tilesim/analytic/least_work.hpp"

#include <algorithm>
#include <cmath>

#include "tilesim/analytic/shapes.hpp"
#include "tilesim/base/functions/functions.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/graph/attention.hpp"

namespace tilesim::analytic {

namespace {

enum : std::uint8_t { simple, multiply, divide, transcendental };

double count(const GraphFunction& function, ValueId id) { return elements(function.value(id).type); }

LeastProduct product(const GraphFunction& function, const Op& op, const ProductExtents& e) {
  LeastProduct least;
  least.dtype = function.value(op.operands[0]).type.dtype;
  least.batch = e.batch, least.m = e.m, least.n = e.n, least.k = e.k;
  // Only the kept elements of a 2:4 operand are multiplied.
  if (is_two_of_four(function.value(op.operands[1]).type.dtype)) least.k = std::ceil(least.k / 2);
  return least;
}

LeastProduct convolution(const GraphFunction& function, const Op& op) {
  LeastProduct least = product(function, op, convolution_extents(function, op));
  least.packs = true;
  const Shape& w = function.value(op.operands[1]).type.shape;
  const std::string& labels = op.attributes.text("w_labels");
  double taps = 1;
  for (std::size_t i = 0; i < labels.size(); ++i)
    if (labels[i] != 'O' && labels[i] != 'I') taps *= static_cast<double>(w[i]);
  double strides = 1;
  for (const std::int64_t stride : op.attributes.integers("strides", {})) strides *= static_cast<double>(stride);
  least.overlap = std::max(1.0, taps / strides);
  return least;
}

/// Share of reductions along rows on the vector unit, because the cross-lane unit may process every second register.
constexpr double combined = 0.5;

/// Every visible score needs a maximum, a subtraction, an exponential and a sum, also with online softmax.
LeastWork attention(const Graph& graph, const GraphFunction& function, const Op& op) {
  LeastWork work;
  const DType dtype = function.value(op.operands[0]).type.dtype;
  const AttentionShape shape = attention_shape(function, op);
  const auto number = [](std::int64_t value) { return static_cast<double>(value); };
  const double heads = number(shape.heads), keys = number(shape.keys);
  const double pairs = attention_reach(graph, function, op).pairs, all = number(shape.batch * shape.queries) * keys;
  if (!(all > 0) || !(heads > 0)) return work;
  LeastProduct scores;
  scores.dtype = dtype;
  scores.batch = number(shape.batch * shape.key_heads);
  // The query heads of a key head are rows of one product.
  scores.m = number(shape.queries * (shape.heads / shape.key_heads)), scores.n = keys, scores.k = number(shape.depth);
  scores.visible = pairs / all;
  LeastProduct sums = scores;
  sums.n = number(shape.width), sums.k = keys;
  work.products = {scores, sums};
  work.functions[simple] = (1 + 2 * combined) * heads * pairs;
  work.functions[transcendental] = heads * pairs;
  work.dtype = dtype;
  return work;
}

/// Functions per element of a composite that works along rows, for any arrangement of its passes.
LeastFunctions rows_of_kind(const Op& op) {
  if (op.kind == Kind::softmax)
    return {1 + 2 * combined, 1, 0, 1};  // subtraction; maximum, sum; division by the sum as product; exponential
  if (op.kind == Kind::log_softmax) return {2 + 2 * combined, 0, 0, 1};  // two subtractions; maximum, sum; exponential
  const std::string& mode = op.attributes.text("mode");
  if (mode == "rms") return {combined, 2, 0, 0};  // sum; squares, scale
  return {1 + combined, 1, 0, 0};                 // centre; sum; a square or product
}

void add_elementwise(const GraphFunction& function, const Op& op, const std::vector<bool>& known, LeastWork& work) {
  const FunctionInfo& entry = info(parse_function(op.attributes.text("function")));
  if (entry.flop_class == FlopClass::move) return;
  auto which = static_cast<std::size_t>(entry.flop_class) - 1;
  // Division by a constant costs a product. A power with a constant costs at least a product.
  const bool constant = std::ranges::any_of(op.operands, [&](ValueId id) { return id != no_value && known[at(id)]; });
  if (constant && which > multiply) which = multiply;
  if (entry.arity > 1 && which == divide) which = multiply;  // rows divided by one number multiply by its inverse
  work.functions[which] += count(function, op.results[0]);
}

}  // namespace

LeastWork least_work(const Graph& graph, const GraphFunction& function, const Op& op, const std::vector<bool>& known) {
  LeastWork work;
  if (op.results.empty()) return work;
  work.dtype = function.value(op.results[0]).type.dtype;
  const bool made_beforehand =
      std::ranges::all_of(op.operands, [&](ValueId id) { return id == no_value || known[at(id)]; });
  const bool empty =
      std::ranges::all_of(op.results, [&](ValueId id) { return id == no_value || count(function, id) == 0; });
  if (made_beforehand || empty) return work;
  switch (op.kind) {
    case Kind::contract:
      work.products = {product(function, op, contract_extents(function, op))};
      break;
    case Kind::ragged_contract: {
      const Shape &a = function.value(op.operands[0]).type.shape, &y = function.value(op.results[0]).type.shape;
      work.products = {
          product(function, op, {1, static_cast<double>(y[0]), static_cast<double>(y[1]), static_cast<double>(a[1])})};
      break;
    }
    case Kind::convolution:
      work.products = {convolution(function, op)};
      break;
    case Kind::attention:
      return attention(graph, function, op);
    case Kind::softmax:
    case Kind::log_softmax:
    case Kind::normalize:
      work.functions = rows_of_kind(op);
      for (double& f : work.functions) f *= count(function, op.results[0]);
      break;
    case Kind::elementwise:
      add_elementwise(function, op, known, work);
      break;
    case Kind::reduce:
      work.functions[op.attributes.text("combiner") == "multiply" ? multiply : simple] +=
          combined * std::max(0.0, count(function, op.operands[0]) - count(function, op.results[0]));
      work.dtype = function.value(op.operands[0]).type.dtype;
      break;
    default:
      break;
  }
  return work;
}

}  // namespace tilesim::analytic
