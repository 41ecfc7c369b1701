// attention in primitives: two products around a masked softmax. The queries of heads that share a key head are rows of
// one product, by a reshape of q.
#include <cmath>
#include <limits>

#include "tilesim/base/shape.hpp"
#include "tilesim/graph/attention.hpp"
#include "tilesim/graph/kinds/expansion.hpp"
#include "tilesim/graph/kinds/rules.hpp"

namespace tilesim::expansion {

namespace {

using rules::Integers;

struct AttentionExtents {
  std::int64_t batch, heads, key_heads, queries, keys, depth, width;
  Shape scores() const { return {batch, heads, queries, keys}; }
  Shape grouped(std::int64_t last) const { return {batch, key_heads, heads / key_heads * queries, last}; }
};

/// The first `count` positions of an axis; the value itself if the axis has no more.
ValueId first_of(Expander& expander, const char* name, ValueId x, std::int64_t axis, std::int64_t count) {
  Shape limit = expander.shape(x);
  if (limit[at(axis)] == count) return x;
  limit[at(axis)] = count;
  Attributes attributes;
  attributes.set("start", Integers(limit.size(), 0));
  attributes.set("stride", Integers(limit.size(), 1));
  attributes.set("limit", Integers(limit));
  return expander.add(name, Kind::slice, {x}, std::move(attributes));
}

ValueId product(Expander& expander, const char* name, ValueId a, ValueId b, std::int64_t b_contract, DType dtype) {
  Attributes attributes;
  attributes.set("a_batch", Integers{0, 1});
  attributes.set("b_batch", Integers{0, 1});
  attributes.set("a_contract", Integers{3});
  attributes.set("b_contract", Integers{b_contract});
  attributes.set("dtype", dtype);
  return expander.add(name, Kind::contract, {a, b}, std::move(attributes));
}

ValueId positions(Expander& expander, const char* name, Shape shape, std::int64_t dim) {
  Attributes attributes;
  attributes.set("shape", std::move(shape));
  attributes.set("dim", dim);
  attributes.set("dtype", DType::i32);
  return expander.add(name, Kind::iota, {}, std::move(attributes));
}

struct Span {
  bool causal;
  std::int64_t offset, window;  ///< offset: for a row with all keys
  ValueId lengths = no_value;   ///< [B, 1, 1, 1] i32
  ValueId shift = no_value;     ///< by which a row's queries precede those of a full row: [B, 1, 1, 1] i32
  /// Whether a query may see no key, if masks are ignored.
  bool hides_rows(const AttentionExtents& e) const {
    return lengths != no_value || (causal && offset < 0) || (window > 0 && e.queries + offset - window >= e.keys);
  }
};

/// Converts integers of any type to i32.
ValueId narrowed(Expander& expander, ValueId x) {
  if (expander.type(x).dtype == DType::i32) return x;
  Attributes attributes;
  attributes.set("dtype", DType::i32);
  return expander.add("integers", Kind::convert, {x}, std::move(attributes));
}

Span span_of(Expander& expander, const AttentionExtents& e, const AttentionShape& shape, ValueId lengths) {
  const Attributes& attributes = expander.op().attributes;
  Span span{attributes.flag("causal"), shape.offset(expander.op(), e.keys), attributes.integer("window", 0)};
  if (lengths == no_value) return span;
  span.lengths = expander.reshaped("lengths", narrowed(expander, lengths), {e.batch, 1, 1, 1});
  const bool ends = attributes.find("causal_offset") == nullptr;  // queries are the last positions of their row
  if (ends && (span.causal || span.window > 0))
    span.shift = expander.apply("shift", Function::subtract,
                                {span.lengths, expander.number(static_cast<double>(e.keys), DType::i32)});
  return span;
}

/// Bool: whether causality, window and row length let a query see a key; no_value if all see all.
ValueId visible(Expander& expander, const AttentionExtents& e, const Span& span) {
  if (!span.causal && span.window == 0 && span.lengths == no_value) return no_value;
  const ValueId key = positions(expander, "key", {1, e.keys}, 1);
  ValueId seen = no_value, query = no_value;
  if (span.causal || span.window > 0) query = positions(expander, "query", {e.queries, 1}, 0);
  if (span.shift != no_value) query = expander.apply("placed", Function::add, {query, span.shift});
  const auto both = [&](ValueId more) {
    seen = seen == no_value ? more : expander.apply("visible", Function::logical_and, {seen, more});
  };
  const auto shifted = [&](std::int64_t by) {
    return by == 0
               ? query
               : expander.apply("bound", Function::add, {query, expander.number(static_cast<double>(by), DType::i32)});
  };
  if (span.causal) both(expander.apply("causal", Function::less_equal, {key, shifted(span.offset)}));
  if (span.window > 0) both(expander.apply("window", Function::greater, {key, shifted(span.offset - span.window)}));
  if (span.lengths != no_value) both(expander.apply("filled", Function::less, {key, span.lengths}));
  return seen;
}

/// Applies soft cap and masks to the scores. Hidden scores become -inf.
ValueId masked_scores(Expander& expander, const AttentionExtents& e, const Span& span, ValueId scores, ValueId mask) {
  const DType dtype = expander.type(scores).dtype;
  const Attributes& attributes = expander.op().attributes;
  const double scale = attributes.number("scale", 1 / std::sqrt(static_cast<double>(e.depth)));
  if (scale != 1) scores = expander.apply("scaled", Function::multiply, {scores, expander.number(scale, dtype)});
  if (const double cap = attributes.number("soft_cap", 0); cap > 0) {
    const ValueId limit = expander.number(cap, dtype);
    scores = expander.apply("capped", Function::tanh, {expander.apply("fraction", Function::divide, {scores, limit})});
    scores = expander.apply("cap", Function::multiply, {scores, limit});
  }
  ValueId seen = visible(expander, e, span);
  if (mask != no_value && expander.type(mask).dtype == DType::boolean)
    seen = seen == no_value ? mask : expander.apply("kept", Function::logical_and, {seen, mask});
  else if (mask != no_value)
    scores = expander.apply("biased", Function::add, {scores, expander.back(mask, dtype)});
  if (seen == no_value) return scores;
  const ValueId lowest = expander.number(-std::numeric_limits<double>::infinity(), dtype);
  return expander.apply("masked", Function::select, {seen, scores, lowest});
}

/// Replaces rows without a visible key by zeros, because their softmax is 0 / 0.
ValueId zero_hidden_rows(Expander& expander, ValueId scores, ValueId weights) {
  const DType dtype = expander.type(scores).dtype;
  const ValueId lowest = expander.number(-std::numeric_limits<double>::infinity(), dtype);
  const ValueId best = expander.reduce("best", "maximum", scores, {3});
  const ValueId hidden = expander.apply("hidden", Function::equal, {best, lowest});
  return expander.apply("weights", Function::select, {hidden, expander.number(0, dtype), weights});
}

/// [B, H, S]: logarithm of the sum of exponentials of the scores; -inf for rows that see no key.
ValueId log_sum(Expander& expander, const AttentionExtents& e, ValueId scores) {
  const DType dtype = expander.type(scores).dtype;
  const ValueId lowest = expander.number(-std::numeric_limits<double>::infinity(), dtype);
  const ValueId best = expander.reduce("best", "maximum", scores, {3});
  const ValueId each =
      expander.apply("exp", Function::exp, {expander.apply("shifted", Function::subtract, {scores, best})});
  const ValueId sum = expander.apply("log", Function::log, {expander.reduce("sum", "add", each, {3})});
  const ValueId hidden = expander.apply("hidden", Function::equal, {best, lowest});
  const ValueId lse =
      expander.apply("lse", Function::select, {hidden, lowest, expander.apply("log_sum", Function::add, {best, sum})});
  return expander.reshaped("lse.shape", lse, {e.batch, e.heads, e.queries});
}

/// Returns the page table [B, P]. If row lengths are given, pages after a row's length are 0.
ValueId read_pages(Expander& expander, const AttentionShape& shape, ValueId pages, ValueId lengths) {
  const std::int64_t count = ceil_div(shape.keys, shape.page);
  pages = narrowed(expander, first_of(expander, "table", pages, 1, count));
  if (lengths == no_value) return pages;
  ValueId start = positions(expander, "page", {1, count}, 1);
  start = expander.apply("start", Function::multiply,
                         {start, expander.number(static_cast<double>(shape.page), DType::i32)});
  const ValueId length = expander.reshaped("row_lengths", narrowed(expander, lengths), {shape.batch, 1});
  const ValueId needed = expander.apply("needed", Function::less, {start, length});
  return expander.apply("pages", Function::select, {needed, pages, expander.number(0, DType::i32)});
}

/// k or v as [B, G, T, d]; gathers the pages of a paged cache.
ValueId cached(Expander& expander, const char* name, const AttentionShape& shape, ValueId x, ValueId pages) {
  if (pages == no_value) return first_of(expander, name, x, 2, shape.keys);
  const std::int64_t width = expander.shape(x)[3], count = expander.shape(pages)[1];
  Attributes gather;
  gather.set("offset_dims", Integers{2, 3, 4});
  gather.set("collapsed_slice_dims", Integers{0});
  gather.set("start_index_map", Integers{0});
  gather.set("index_vector_dim", std::int64_t{2});
  gather.set("slice_sizes", Integers{1, shape.key_heads, shape.page, width});
  gather.set("mode", std::string("error"));
  ValueId all = expander.add(name, Kind::gather, {x, pages}, std::move(gather));
  Attributes order;
  order.set("permutation", Integers{0, 2, 1, 3, 4});
  all = expander.add(name, Kind::transpose, {all}, std::move(order));
  all = expander.reshaped(name, all, {shape.batch, shape.key_heads, count * shape.page, width});
  return first_of(expander, name, all, 2, shape.keys);
}

/// Replaces rows that no query sees by zeros, because unused rows of a cache may contain anything, even NaN.
ValueId filled_values(Expander& expander, const AttentionExtents& e, const Span& span, ValueId values) {
  if (span.lengths == no_value) return values;
  const ValueId row = positions(expander, "row", {e.keys, 1}, 0);
  const ValueId there = expander.apply("there", Function::less, {row, span.lengths});
  return expander.apply("filled_values", Function::select,
                        {there, values, expander.number(0, expander.type(values).dtype)});
}

}  // namespace

std::vector<ValueId> attention(Expander& expander, const std::vector<ValueId>& operands) {
  const AttentionShape shape = [&] {
    std::vector<const TensorType*> types;
    for (const ValueId id : operands) types.push_back(id == no_value ? nullptr : &expander.type(id));
    return attention_shape(expander.op(), types);
  }();
  const auto operand = [&](std::size_t i) { return i < operands.size() ? operands[i] : no_value; };
  const AttentionExtents e{shape.batch, shape.heads, shape.key_heads, shape.queries,
                           shape.keys,  shape.depth, shape.width};
  const DType dtype = expander.type(operands[0]).dtype, wide = rules::compute_dtype(dtype);
  const ValueId lengths = operand(attention_kv_len);
  const Span span = span_of(expander, e, shape, lengths);
  ValueId mask = operand(attention_mask), pages = operand(attention_pages);
  if (mask != no_value && !expander.shape(mask).empty() && expander.shape(mask).back() > 1)
    mask = first_of(expander, "mask", mask, static_cast<std::int64_t>(expander.shape(mask).size()) - 1, e.keys);
  if (pages != no_value) pages = read_pages(expander, shape, pages, lengths);
  const ValueId keys = cached(expander, "keys", shape, operands[attention_k], pages);
  const ValueId values =
      filled_values(expander, e, span, cached(expander, "values", shape, operands[attention_v], pages));

  const ValueId queries = expander.reshaped("queries", operands[attention_q], e.grouped(e.depth));
  ValueId scores = product(expander, "scores", queries, keys, 3, wide);
  scores = expander.reshaped("heads", scores, e.scores());
  scores = masked_scores(expander, e, span, scores, mask);
  ValueId weights = softmax(expander, scores, 3);
  const bool zero = expander.op().attributes.text("masked_row", "zero") == "zero";
  if (zero && (mask != no_value || span.hides_rows(e))) weights = zero_hidden_rows(expander, scores, weights);
  weights = expander.reshaped("grouped", weights, e.grouped(e.keys));
  const ValueId out = product(expander, "product", weights, values, 2, dtype);
  std::vector<ValueId> results{expander.reshaped("ungrouped", out, {e.batch, e.heads, e.queries, e.width})};
  if (expander.op().results.size() > 1) results.push_back(log_sum(expander, e, scores));
  return results;
}

}  // namespace tilesim::expansion
