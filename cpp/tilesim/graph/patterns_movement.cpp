// Patterns of movement: transposes that a product can read through, key heads that are repeated, rotated halves, numbers
// that are quantized and come back at once.
#include <algorithm>
#include <numeric>

#include "tilesim/base/shape.hpp"
#include "tilesim/graph/kind.hpp"
#include "tilesim/graph/recognition.hpp"

namespace tilesim::recognition {

namespace {

using enum Function;

/// Axes of a product's operand once its transpose is gone; the free ones must stay in order.
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

/// k[B, G, T, D] where value repeats each of its heads P times in a row: reshape(broadcast(k)) or the like.
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
  if (op.kind != Kind::attention) return {};
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

/// x where value is x[first half .. second half] rotated: concat(-x2, x1) along the last axis.
ValueId rotated_halves(const Reader& reader, ValueId value) {
  const Op* both = reader.op(value, Kind::concat);
  if (both == nullptr || both->operands.size() != 2) return no_value;
  const std::int64_t dim = both->attributes.integer("dim"), width = reader.shape(value).back();
  const Op* negative = reader.elementwise(both->operands[0], negate);
  if (dim != reader.rank(value) - 1 || width % 2 != 0 || negative == nullptr) return no_value;
  const Op* high = reader.op(negative->operands[0], Kind::slice);
  const Op* low = reader.op(both->operands[1], Kind::slice);
  if (high == nullptr || low == nullptr || high->operands[0] != low->operands[0]) return no_value;
  const bool halves = high->attributes.integers("start").back() == width / 2 &&
                      low->attributes.integers("limit").back() == width / 2;
  return halves && reader.shape(low->operands[0]) == reader.shape(value) ? low->operands[0] : no_value;
}

}  // namespace

std::vector<Candidate> match_rotary(const Reader& reader, const Op& op) {
  const ValueId root = op.results.empty() ? no_value : op.results[0];
  if (root == no_value || reader.elementwise(root, add) == nullptr) return {};
  for (const int i : {0, 1}) {
    const Op* plain = reader.elementwise(op.operands[at(i)], multiply);
    const Op* turned = reader.elementwise(op.operands[at(1 - i)], multiply);
    if (plain == nullptr || turned == nullptr) continue;
    for (const int k : {0, 1}) {
      const ValueId x = rotated_halves(reader, turned->operands[at(k)]);
      if (x == no_value || !std::ranges::count(plain->operands, x)) continue;
      const ValueId sine = turned->operands[at(1 - k)];
      const ValueId cosine = plain->operands[plain->operands[0] == x ? 1 : 0];
      if (reader.shape(root) != reader.shape(x)) continue;
      Candidate candidate;
      candidate.root = root;
      candidate.leaves = {x, cosine, sine};
      candidate.after = "rotary (halves)";
      candidate.build = [](Builder& builder, const Values& leaves) {
        Attributes attributes;
        attributes.set("style", std::string("halves"));
        return builder.op(Kind::rotary, leaves, attributes)[0];
      };
      return {candidate};
    }
  }
  return {};
}

namespace {

/// x where value is convert(round(x / scale [+ zero])) to an integer; scale and zero as they stand.
struct Quantized {
  ValueId x, scale, zero = no_value;
};
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

/// quantize(dequantize(q)) with the same scale and zero point is q: the check runs at the true numbers.
std::vector<Candidate> match_quantized_pair(const Reader& reader, const Op& op) {
  if (op.kind != Kind::convert) return {};
  const ValueId root = op.results[0];
  const auto outer = quantized(reader, root);
  if (!outer) return {};
  // (q - zero) * scale
  const Op* product = reader.elementwise(reader.unconverted(outer->x), multiply);
  if (product == nullptr) return {};
  const auto widened_from = [&](ValueId value) {
    while (reader.type(value).dtype != reader.type(root).dtype && reader.op(value, Kind::convert) != nullptr)
      value = reader.op(value)->operands[0];
    return value;
  };
  ValueId inner = widened_from(product->operands[0]);
  if (const Op* shifted = reader.elementwise(inner, subtract)) inner = widened_from(shifted->operands[0]);
  if (reader.type(inner) != reader.type(root)) return {};
  Candidate candidate;
  candidate.root = root;
  candidate.leaves = {inner};
  candidate.after = "its input";
  candidate.shared_inside = true;
  candidate.whole = !reader.number(outer->scale) || (outer->zero != no_value && !reader.number(outer->zero));
  candidate.build = [](Builder&, const Values& leaves) { return leaves[0]; };
  return {candidate};
}

}  // namespace tilesim::recognition
