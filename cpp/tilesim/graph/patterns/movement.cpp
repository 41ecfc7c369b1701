// Patterns of movement: transposes that a product can read through, repeated key heads, rotated halves, and
// quantization followed by dequantization.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "tilesim/base/shape.hpp"
#include "tilesim/graph/kind.hpp"
#include "tilesim/graph/patterns/recognition.hpp"

namespace tilesim::recognition {

namespace {

using enum Function;

/// Axes of a product's operand without its transpose; free axes must keep their order.
struct Through {
  ValueId before;
  Integers batch, sum;
};
std::optional<Through> through(const Reader& reader, ValueId x, const Integers& batch, const Integers& sum) {
  const Op* transpose = reader.op(x, Kind::transpose);
  if (transpose == nullptr) return std::nullopt;
  const Integers& permutation = transpose->attributes.integers("permutation");
  Integers free;
  for (std::int64_t axis = 0; axis < reader.rank(x); ++axis)
    if (!std::ranges::count(batch, axis) && !std::ranges::count(sum, axis)) free.push_back(permutation[at(axis)]);
  if (!std::ranges::is_sorted(free)) return std::nullopt;
  Through result{transpose->operands[0], batch, sum};
  for (Integers* axes : {&result.batch, &result.sum})
    for (std::int64_t& axis : *axes) axis = permutation[at(axis)];
  return result;
}

}  // namespace

std::vector<Candidate> match_transposed_product(const Reader& reader, const Op& op) {
  if (op.kind != Kind::contract || op.operands.size() != 2) return {};
  const auto list = [&](const char* name) { return op.attributes.integers(name, {}); };
  const auto a = through(reader, op.operands[0], list("a_batch"), list("a_contract"));
  const auto b = through(reader, op.operands[1], list("b_batch"), list("b_contract"));
  if (!a && !b) return {};
  Candidate candidate;
  candidate.root = op.results[0];
  candidate.leaves = {a ? a->before : op.operands[0], b ? b->before : op.operands[1]};
  candidate.after = "contract";
  Attributes attributes = op.attributes;
  attributes.set("dtype", reader.type(op.results[0]).dtype);
  if (a) attributes.set("a_batch", a->batch);
  if (a) attributes.set("a_contract", a->sum);
  if (b) attributes.set("b_batch", b->batch);
  if (b) attributes.set("b_contract", b->sum);
  candidate.build = [attributes](Builder& builder, const Values& leaves) {
    Attributes own = attributes;
    if (builder.type(leaves[0]).dtype == DType::f64) own.set("dtype", DType::f64);
    return builder.op(Kind::contract, leaves, own)[0];
  };
  return {candidate};
}

namespace {

/// k[B, G, T, D] if value repeats each of its heads P times in a row: reshape(broadcast(k)) or an equal form.
ValueId heads_before(const Reader& reader, ValueId value, std::int64_t heads) {
  const Op* merged = reader.op(value, Kind::reshape);
  const Op* spread = merged == nullptr ? nullptr : reader.op(merged->operands[0], Kind::broadcast);
  if (spread == nullptr || reader.rank(merged->operands[0]) != 5) return no_value;
  const Shape& wide = reader.shape(merged->operands[0]);
  ValueId own = spread->operands[0];
  Integers dims = spread->attributes.integers("dims");
  if (reader.rank(own) == 5 && reader.shape(own)[2] == 1) {
    const Op* added = reader.op(own, Kind::reshape);
    if (added == nullptr || reader.rank(added->operands[0]) != 4) return no_value;
    own = added->operands[0];
    dims.erase(dims.begin() + 2);
  }
  const Integers wanted{0, 1, 3, 4};
  if (reader.rank(own) != 4 || dims != wanted) return no_value;
  const Shape& shape = reader.shape(own);
  const bool merges = wide[1] * wide[2] == heads && shape == Shape{wide[0], wide[1], wide[3], wide[4]};
  return merges ? own : no_value;
}

}  // namespace

std::vector<Candidate> match_grouped_heads(const Reader& reader, const Op& op) {
  if (op.kind != Kind::attention || op.results.size() > 1) return {};
  const std::int64_t heads = reader.shape(op.operands[1])[1];
  const ValueId k = heads_before(reader, op.operands[1], heads), v = heads_before(reader, op.operands[2], heads);
  if (k == no_value || v == no_value || reader.shape(k)[1] != reader.shape(v)[1]) return {};
  Candidate candidate;
  candidate.root = op.results[0];
  candidate.leaves = {op.operands[0], k, v};
  for (std::size_t i = 3; i < op.operands.size(); ++i)
    if (op.operands[i] != no_value) candidate.leaves.push_back(op.operands[i]);
  candidate.after = "attention with " + std::to_string(reader.shape(k)[1]) + " key heads";
  const Op own = op;
  candidate.build = [own](Builder& builder, const Values& leaves) {
    Values operands;
    std::size_t next = 0;
    for (const ValueId id : own.operands) operands.push_back(id == no_value ? no_value : leaves[next++]);
    return builder.op(Kind::attention, operands, own.attributes)[0];
  };
  return {candidate};
}

namespace {

/// Half of a tensor: elements [start, start + width / 2) of the last axis, or every second one from `start` on.
struct Half {
  ValueId x = no_value;
  bool second = false, pairs = false;
};
std::optional<Half> half_of(const Reader& reader, ValueId value) {
  if (reader.op(value, Kind::reshape) != nullptr) {  // [.., D / 2] as [.., D / 2, 1]
    Shape before = reader.shape(reader.op(value)->operands[0]);
    before.push_back(1);
    if (reader.shape(value) != before) return std::nullopt;
    value = reader.op(value)->operands[0];
  }
  const Op* slice = reader.op(value, Kind::slice);
  if (slice == nullptr || reader.rank(value) == 0) return std::nullopt;
  const ValueId x = slice->operands[0];
  const std::int64_t width = reader.shape(x).back(), start = slice->attributes.integers("start").back();
  Shape half = reader.shape(x);
  half.back() = width / 2;
  if (width % 2 != 0 || reader.shape(value) != half) return std::nullopt;
  const Integers strides = slice->attributes.integers("stride", Integers(reader.shape(x).size(), 1));
  const bool pairs = strides.back() == 2 && width > 2;
  if (pairs ? start > 1 : start != 0 && start != width / 2) return std::nullopt;
  return Half{x, start != 0, pairs};
}

/// x if value is (-x2, x1), where x1 and x2 are halves of x or its alternating elements.
std::optional<Half> turned_halves(const Reader& reader, ValueId value) {
  const ValueId whole = value;
  if (const Op* merged = reader.op(value, Kind::reshape)) value = merged->operands[0];
  const Op* both = reader.op(value, Kind::concat);
  if (both == nullptr || both->operands.size() != 2) return std::nullopt;
  if (both->attributes.integer("dim") != reader.rank(value) - 1) return std::nullopt;
  ValueId negative = both->operands[0];
  if (const Op* added = reader.op(negative, Kind::reshape)) negative = added->operands[0];
  const Op* negated = reader.elementwise(negative, negate);
  if (negated == nullptr) return std::nullopt;
  const auto high = half_of(reader, negated->operands[0]), low = half_of(reader, both->operands[1]);
  if (!high || !low || high->x != low->x || !high->second || low->second || high->pairs != low->pairs)
    return std::nullopt;
  const std::int64_t added = reader.rank(value) - reader.rank(low->x);  // an axis of 1 that the pairs stand along
  if (reader.shape(whole) != reader.shape(low->x) || added != (low->pairs ? 1 : 0)) return std::nullopt;
  return low;
}

Candidate rotary_candidate(ValueId root, Values leaves, bool pairs, bool doubled) {
  Candidate candidate;
  candidate.root = root;
  candidate.leaves = std::move(leaves);
  candidate.after = pairs ? "rotary (pairs)" : "rotary (halves)";
  candidate.build = [pairs, doubled](Builder& builder, const Values& given) {
    Values operands = given;
    Attributes twice, attributes;
    for (std::size_t i = 1; doubled && i < 3; ++i) {
      twice.set("dim", static_cast<std::int64_t>(builder.type(given[i]).shape.size()) - 1);
      operands[i] = builder.op(Kind::concat, {given[i], given[i]}, twice)[0];
    }
    attributes.set("style", std::string(pairs ? "pairs" : "halves"));
    return builder.op(Kind::rotary, operands, attributes)[0];
  };
  return candidate;
}

/// x cos + turn(x) sin.
std::vector<Candidate> match_turned(const Reader& reader, const Op& op) {
  const ValueId root = op.results[0];
  for (const int i : {0, 1}) {
    const Op* plain = reader.elementwise(op.operands[at(i)], multiply);
    const Op* turned = reader.elementwise(op.operands[at(1 - i)], multiply);
    for (const int k : {0, 1}) {
      if (plain == nullptr || turned == nullptr) continue;
      const auto half = turned_halves(reader, turned->operands[at(k)]);
      if (!half || !std::ranges::count(plain->operands, half->x)) continue;
      if (reader.shape(root) != reader.shape(half->x)) continue;
      const ValueId cosine = plain->operands[plain->operands[0] == half->x ? 1 : 0];
      return {rotary_candidate(root, {half->x, cosine, turned->operands[at(1 - k)]}, half->pairs, false)};
    }
  }
  return {};
}

/// A product's operand that is a half of a tensor, and the other operand.
struct Term {
  Half half;
  ValueId factor;
};
std::optional<Term> term_of(const Reader& reader, ValueId value) {
  const Op* product = reader.elementwise(value, multiply);
  for (const int i : {0, 1})
    if (const auto half = product == nullptr ? std::nullopt : half_of(reader, product->operands[at(i)]))
      return Term{*half, product->operands[at(1 - i)]};
  return std::nullopt;
}

/// Whether a value is a cross product of terms, in any order; `straight` has the second half.
bool crosses(const Reader& reader, ValueId value, const Term& straight, const Term& across) {
  const Op* sum = reader.elementwise(value, add);
  for (const int i : {0, 1}) {
    const auto a = sum == nullptr ? std::nullopt : term_of(reader, sum->operands[at(i)]);
    const auto b = sum == nullptr ? std::nullopt : term_of(reader, sum->operands[at(1 - i)]);
    if (!a || !b || a->half.x != straight.half.x || b->half.x != straight.half.x || a->half.pairs || b->half.pairs)
      continue;
    if (a->half.second && !b->half.second && a->factor == straight.factor && b->factor == across.factor) return true;
  }
  return false;
}

/// concat(x1 cos - x2 sin, x2 cos + x1 sin) with tables of half the width.
std::vector<Candidate> match_two_halves(const Reader& reader, const Op& op) {
  const ValueId root = op.results[0];
  if (op.operands.size() != 2 || op.attributes.integer("dim") != reader.rank(root) - 1) return {};
  const Op* low = reader.elementwise(op.operands[0], subtract);
  const auto straight = low == nullptr ? std::nullopt : term_of(reader, low->operands[0]);
  const auto across = low == nullptr ? std::nullopt : term_of(reader, low->operands[1]);
  if (!straight || !across || straight->half.x != across->half.x || straight->half.second || !across->half.second)
    return {};
  if (straight->half.pairs || across->half.pairs || reader.shape(straight->half.x) != reader.shape(root)) return {};
  if (!crosses(reader, op.operands[1], *straight, *across)) return {};
  return {rotary_candidate(root, {straight->half.x, straight->factor, across->factor}, false, true)};
}

}  // namespace

std::vector<Candidate> match_rotary(const Reader& reader, const Op& op) {
  if (op.kind == Kind::concat) return match_two_halves(reader, op);
  const bool sum = op.kind == Kind::elementwise && reader.elementwise(op.results[0], add) != nullptr;
  return sum ? match_turned(reader, op) : std::vector<Candidate>{};
}

namespace {

/// x if value is convert(round(x / scale [+ zero])) to an integer, with scale and zero point.
struct Quantized { ValueId x, scale, zero = no_value; };
std::optional<Quantized> quantized(const Reader& reader, ValueId value) {
  const Op* narrow = reader.op(value, Kind::convert);
  if (narrow == nullptr || !is_integer(reader.type(value).dtype) || bits(reader.type(value).dtype) > 8)
    return std::nullopt;
  if (narrow->attributes.text("overflow", "ieee") != "saturate") return std::nullopt;
  ValueId inner = narrow->operands[0];
  Quantized result{no_value, no_value};
  if (const Op* shifted = reader.elementwise(inner, add)) {
    inner = shifted->operands[0];
    result.zero = shifted->operands[1];
  }
  const Op* rounded = reader.elementwise(inner, round_even);
  const Op* ratio = rounded == nullptr ? nullptr : reader.elementwise(rounded->operands[0], divide);
  if (ratio == nullptr) return std::nullopt;
  result.x = ratio->operands[0];
  result.scale = ratio->operands[1];
  return result;
}

}  // namespace

namespace {

/// The value before conversions to wider dtypes, which keep all numbers of the narrow one.
ValueId widened_from(const Reader& reader, ValueId value, DType narrow) {
  constexpr double eight = 0x1p-8;  // u of the coarsest float that holds all integers of 8 bits
  while (const Op* convert = reader.op(value, Kind::convert)) {
    const DType own = reader.type(value).dtype;
    if (own == narrow || (is_float(own) ? unit_roundoff(own) > eight : !is_integer(own) || bits(own) < 16)) break;
    value = convert->operands[0];
  }
  return value;
}

/// Whether two values have the same elements.
bool alike(const Reader& reader, ValueId a, ValueId b) {
  if (a == b) return true;
  const auto left = reader.number(a), right = reader.number(b);
  if (left || right) return left == right;
  const Op *x = reader.op(a), *y = reader.op(b);
  if (x == nullptr || y == nullptr || x->kind != y->kind || reader.type(a) != reader.type(b)) return false;
  if (x->kind == Kind::constant) {
    const Weight *left_data = reader.weight(a), *right_data = reader.weight(b);
    if (left_data == nullptr || right_data == nullptr || left_data->trainable || right_data->trainable) return false;
    if (left_data->source != Weight::Source::data || right_data->source != Weight::Source::data) return false;
    const Array &own = left_data->data, &other = right_data->data;
    return !own.empty() && !other.empty() && own.dtype() == other.dtype() &&
           std::equal(own.bytes(), own.bytes() + own.nbytes(), other.bytes(), other.bytes() + other.nbytes());
  }
  return (info(x->kind).movement || x->kind == Kind::convert) && x->attributes == y->attributes &&
         x->operands.size() == 1 && alike(reader, x->operands[0], y->operands[0]);
}

/// Whether a float represents quotients of products of 8-bit integers closely enough to round back.
bool rounds_back(DType dtype) {
  constexpr double finest = 0x1p-11;  // f16: 255 * 3 u < 1/2
  return is_float(dtype) && unit_roundoff(dtype) <= finest;
}

/// Whether division by a scale is safe: it is known, finite and not 0.
bool safe_scale(const Reader& reader, ValueId scale) {
  const auto safe = [](double number) { return std::isnormal(static_cast<float>(number)); };
  if (const auto number = reader.number(scale)) return safe(*number);
  const Weight* weight = reader.weight(reader.peeled(scale));
  if (weight == nullptr || weight->source != Weight::Source::data || weight->data.empty()) return false;
  for (std::int64_t i = 0; i < weight->data.size(); ++i)
    if (!safe(weight->data.at(i))) return false;
  return true;
}

}  // namespace

/// quantize(dequantize(q)) with the same scale and zero point is q.
std::vector<Candidate> match_quantized_pair(const Reader& reader, const Op& op) {
  if (op.kind != Kind::convert) return {};
  const ValueId root = op.results[0];
  const auto outer = quantized(reader, root);
  if (!outer) return {};
  const DType narrow = reader.type(root).dtype;
  // (q - zero) * scale
  const Op* product = reader.elementwise(reader.unconverted(outer->x), multiply);
  if (product == nullptr || !alike(reader, product->operands[1], outer->scale)) return {};
  if (!safe_scale(reader, outer->scale)) return {};
  ValueId inner = widened_from(reader, product->operands[0], narrow), zero = no_value;
  if (const Op* shifted = reader.elementwise(inner, subtract)) {
    if (reader.type(inner).dtype == narrow) return {};  // differences that wrap
    zero = shifted->operands[1];
    inner = widened_from(reader, shifted->operands[0], narrow);
  }
  const auto is_zero = [&](ValueId point) { return point == no_value || reader.number(point) == 0.0; };
  const bool same_zero = (is_zero(zero) && is_zero(outer->zero)) ||
                         (zero != no_value && outer->zero != no_value &&
                          alike(reader, widened_from(reader, zero, narrow), widened_from(reader, outer->zero, narrow)));
  if (!same_zero || reader.type(inner) != reader.type(root)) return {};
  Candidate candidate;
  candidate.root = root;
  candidate.leaves = {inner};
  candidate.after = "its input";
  candidate.shared_inside = true;
  candidate.whole = !reader.number(outer->scale) || (outer->zero != no_value && !reader.number(outer->zero));
  candidate.build = [](Builder&, const Values& leaves) { return leaves[0]; };
  const auto ops = cone(reader, candidate);
  for (const Op* part : ops ? *ops : std::vector<const Op*>{}) {
    const DType dtype = reader.type(part->results[0]).dtype;
    const bool known = part->kind == Kind::constant || reader.number(part->results[0]).has_value();
    if (is_float(dtype) && !known && !rounds_back(dtype)) return {};
  }
  return {candidate};
}

}  // namespace tilesim::recognition
