#include "tilesim/analytic/least_work.hpp"

#include <algorithm>
#include <cmath>

#include "tilesim/analytic/shapes.hpp"
#include "tilesim/base/functions/functions.hpp"
#include "tilesim/base/index.hpp"

namespace tilesim::analytic {

namespace {

enum : std::uint8_t { simple, multiply, divide, transcendental };

double count(const GraphFunction& function, ValueId id) { return elements(function.value(id).type); }

LeastProduct product(const GraphFunction& function, const Op& op, const Extents& e) {
  LeastProduct least;
  least.dtype = function.value(op.operands[0]).type.dtype;
  least.batch = e.batch, least.m = e.m, least.n = e.n, least.k = e.k;
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

/// Online or not: a maximum, a subtraction, an exponential and a sum for every visible score.
LeastWork attention(const GraphFunction& function, const Op& op) {
  LeastWork work;
  const TensorType& q = function.value(op.operands[0]).type;
  const AttentionCase call = attention_case(function, op);
  const double heads = call.batch * call.heads;
  const double pairs = visible_pairs(op, call.queries, call.keys), all = call.queries * call.keys;
  if (!(all > 0) || !(heads > 0)) return work;
  const double shared = call.heads / call.key_heads;  // query heads of a key head are rows of one product
  LeastProduct scores;
  scores.dtype = q.dtype;
  scores.batch = call.batch * call.key_heads;
  scores.m = call.queries * shared, scores.n = call.keys, scores.k = static_cast<double>(q.shape[3]);
  scores.visible = pairs / all;
  LeastProduct sums = scores;
  sums.n = static_cast<double>(function.value(op.operands[2]).type.shape[3]), sums.k = call.keys;
  work.products = {scores, sums};
  work.functions[simple] = 3 * heads * pairs;
  work.functions[transcendental] = heads * pairs;
  work.dtype = q.dtype;
  return work;
}

/// Functions for every element of a composite that works along rows, however its passes are arranged.
LeastFunctions rows_of_kind(const Op& op) {
  if (op.kind == Kind::softmax) return {3, 1, 0, 1};      // maximum, subtraction, sum; scale by the sum; exponential
  if (op.kind == Kind::log_softmax) return {4, 0, 0, 1};  // maximum, two subtractions, sum; exponential
  const std::string& mode = op.attributes.text("mode");
  if (mode == "rms") return {1, 2, 0, 0};  // squares and their sum, scale
  return {2, 1, 0, 0};                     // sum, a square or product, centre
}

void add_elementwise(const GraphFunction& function, const Op& op, const std::vector<bool>& known, LeastWork& work) {
  const FunctionInfo& entry = info(parse_function(op.attributes.text("function")));
  if (entry.flop_class == FlopClass::move) return;
  auto which = static_cast<std::size_t>(entry.flop_class) - 1;
  // By something known, a division is a product and a power at best a product too.
  const bool constant = std::ranges::any_of(op.operands, [&](ValueId id) { return id != no_value && known[at(id)]; });
  if (constant && which > multiply) which = multiply;
  if (entry.arity > 1 && which == divide) which = multiply;  // of rows by one number each: its inverse is made once
  work.functions[which] += count(function, op.results[0]);
}

}  // namespace

double visible_pairs(const Op& op, double queries, double keys) {
  const bool causal = op.attributes.flag("causal");
  const auto window = static_cast<double>(op.attributes.integer("window", 0));
  if (!causal && window <= 0) return queries * keys;
  // Query i stands at position i + offset: causal, it sees keys up to there; a window begins so many before.
  const double offset = static_cast<double>(
      op.attributes.integer("causal_offset", static_cast<std::int64_t>(keys) - static_cast<std::int64_t>(queries)));
  const auto rows = static_cast<std::int64_t>(queries);
  double pairs = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    const double at_key = static_cast<double>(i) + offset;
    const double last = causal ? std::min(keys - 1, at_key) : keys - 1;
    const double first = window > 0 ? std::max(0.0, at_key - window + 1) : 0;
    pairs += std::max(0.0, last - first + 1);
  }
  return std::min(pairs, queries * keys);
}

LeastWork least_work(const GraphFunction& function, const Op& op, const std::vector<bool>& known) {
  LeastWork work;
  if (op.results.empty()) return work;
  work.dtype = function.value(op.results[0]).type.dtype;
  const bool made_beforehand =
      std::ranges::all_of(op.operands, [&](ValueId id) { return id == no_value || known[at(id)]; });
  if (made_beforehand) return work;
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
      return attention(function, op);
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
          std::max(0.0, count(function, op.operands[0]) - count(function, op.results[0]));
      work.dtype = function.value(op.operands[0]).type.dtype;
      break;
    default:
      break;
  }
  return work;
}

}  // namespace tilesim::analytic
