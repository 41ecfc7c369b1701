// attention in primitives: two products around a masked softmax. Queries of the heads that share a key head are rows of
// one product, which is a reshape of q.
#include <cmath>
#include <limits>

#include "tilesim/graph/kinds/expansion.hpp"
#include "tilesim/graph/kinds/rules.hpp"

namespace tilesim::expansion {

namespace {

using rules::Integers;

struct Extents {
  std::int64_t batch, heads, key_heads, queries, keys, depth, width;
  Shape scores() const { return {batch, heads, queries, keys}; }
  Shape grouped(std::int64_t last) const { return {batch, key_heads, heads / key_heads * queries, last}; }
};

/// The first `count` positions of an axis; the value itself where those are all.
ValueId first_of(Parts& parts, const char* name, ValueId x, std::int64_t axis, std::int64_t count) {
  Shape limit = parts.shape(x);
  if (limit[at(axis)] == count) return x;
  limit[at(axis)] = count;
  Attributes attributes;
  attributes.set("start", Integers(limit.size(), 0));
  attributes.set("stride", Integers(limit.size(), 1));
  attributes.set("limit", Integers(limit));
  return parts.add(name, Kind::slice, {x}, std::move(attributes));
}

ValueId product(Parts& parts, const char* name, ValueId a, ValueId b, std::int64_t b_contract, DType dtype) {
  Attributes attributes;
  attributes.set("a_batch", Integers{0, 1});
  attributes.set("b_batch", Integers{0, 1});
  attributes.set("a_contract", Integers{3});
  attributes.set("b_contract", Integers{b_contract});
  attributes.set("dtype", dtype);
  return parts.add(name, Kind::contract, {a, b}, std::move(attributes));
}

ValueId positions(Parts& parts, const char* name, Shape shape, std::int64_t dim) {
  Attributes attributes;
  attributes.set("shape", std::move(shape));
  attributes.set("dim", dim);
  attributes.set("dtype", DType::i32);
  return parts.add(name, Kind::iota, {}, std::move(attributes));
}

struct Span {
  bool causal;
  std::int64_t offset, window;
  /// Whether some query sees no key at all, masks aside.
  bool hides_rows(const Extents& e) const {
    return (causal && offset < 0) || (window > 0 && e.queries + offset - window >= e.keys);
  }
};

/// [S, T] bool: the keys that causality and window let a query see; no_value: all.
ValueId visible(Parts& parts, const Extents& e, const Span& span) {
  if (!span.causal && span.window == 0) return no_value;
  const ValueId query = positions(parts, "query", {e.queries, 1}, 0), key = positions(parts, "key", {1, e.keys}, 1);
  ValueId seen = no_value;
  const auto shifted = [&](std::int64_t by) {
    return by == 0 ? query
                   : parts.apply("bound", Function::add, {query, parts.number(static_cast<double>(by), DType::i32)});
  };
  if (span.causal) seen = parts.apply("causal", Function::less_equal, {key, shifted(span.offset)});
  if (span.window > 0) {
    const ValueId near = parts.apply("window", Function::greater, {key, shifted(span.offset - span.window)});
    seen = seen == no_value ? near : parts.apply("visible", Function::logical_and, {seen, near});
  }
  return seen;
}

/// Scores with soft cap and masks applied; hidden ones are -inf.
ValueId masked_scores(Parts& parts, const Extents& e, const Span& span, ValueId scores, ValueId mask) {
  const DType dtype = parts.type(scores).dtype;
  const Attributes& attributes = parts.op().attributes;
  const double scale = attributes.number("scale", 1 / std::sqrt(static_cast<double>(e.depth)));
  if (scale != 1) scores = parts.apply("scaled", Function::multiply, {scores, parts.number(scale, dtype)});
  if (const double cap = attributes.number("soft_cap", 0); cap > 0) {
    const ValueId limit = parts.number(cap, dtype);
    scores = parts.apply("capped", Function::tanh, {parts.apply("fraction", Function::divide, {scores, limit})});
    scores = parts.apply("cap", Function::multiply, {scores, limit});
  }
  ValueId seen = visible(parts, e, span);
  if (mask != no_value && parts.type(mask).dtype == DType::boolean)
    seen = seen == no_value ? mask : parts.apply("kept", Function::logical_and, {seen, mask});
  else if (mask != no_value)
    scores = parts.apply("biased", Function::add, {scores, parts.back(mask, dtype)});
  if (seen == no_value) return scores;
  const ValueId lowest = parts.number(-std::numeric_limits<double>::infinity(), dtype);
  return parts.apply("masked", Function::select, {seen, scores, lowest});
}

/// Rows without a visible key are 0 / 0 in a softmax: they become zero.
ValueId zero_hidden_rows(Parts& parts, ValueId scores, ValueId weights) {
  const DType dtype = parts.type(scores).dtype;
  const ValueId lowest = parts.number(-std::numeric_limits<double>::infinity(), dtype);
  const ValueId best = parts.reduce("best", "maximum", scores, {3});
  const ValueId hidden = parts.apply("hidden", Function::equal, {best, lowest});
  return parts.apply("weights", Function::select, {hidden, parts.number(0, dtype), weights});
}

}  // namespace

ValueId attention(Parts& parts, const std::vector<ValueId>& operands) {
  const Shape q = parts.shape(operands[0]), k = parts.shape(operands[1]), v = parts.shape(operands[2]);
  const std::int64_t attended = rules::attended_keys(parts.op(), parts.type(operands[1]));
  const Extents e{q[0], q[1], k[1], q[2], attended, q[3], v[3]};
  const DType dtype = parts.type(operands[0]).dtype, wide = rules::compute_dtype(dtype);
  const Attributes& attributes = parts.op().attributes;
  const Span span{attributes.flag("causal"), attributes.integer("causal_offset", e.keys - e.queries),
                  attributes.integer("window", 0)};
  ValueId mask = operands.size() > 3 ? operands[3] : no_value;
  if (mask != no_value && !parts.shape(mask).empty() && parts.shape(mask).back() > 1)
    mask = first_of(parts, "mask", mask, static_cast<std::int64_t>(parts.shape(mask).size()) - 1, attended);
  const ValueId keys = first_of(parts, "keys", operands[1], 2, attended);
  const ValueId values = first_of(parts, "values", operands[2], 2, attended);

  const ValueId queries = parts.reshaped("queries", operands[0], e.grouped(e.depth));
  ValueId scores = product(parts, "scores", queries, keys, 3, wide);
  scores = parts.reshaped("heads", scores, e.scores());
  scores = masked_scores(parts, e, span, scores, mask);
  ValueId weights = softmax(parts, scores, 3);
  const bool zero = attributes.text("masked_row", "zero") == "zero";
  if (zero && (mask != no_value || span.hides_rows(e))) weights = zero_hidden_rows(parts, scores, weights);
  weights = parts.reshaped("grouped", weights, e.grouped(e.keys));
  const ValueId out = product(parts, "product", weights, values, 2, dtype);
  return parts.reshaped("ungrouped", out, {e.batch, e.heads, e.queries, e.width});
}

}  // namespace tilesim::expansion
