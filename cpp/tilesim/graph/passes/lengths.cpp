// Replaces attention masks of the form (position < length of the batch row) by kv_len, so that other keys are neither
// read nor computed.
#include <algorithm>
#include <limits>

#include "tilesim/base/shape.hpp"
#include "tilesim/graph/attention.hpp"
#include "tilesim/graph/kind.hpp"
#include "tilesim/graph/patterns/recognition.hpp"

namespace tilesim::recognition {

namespace {

using enum Function;

/// The row lengths that a mask expresses for one attention.
struct Lengths {
  ValueId lengths = no_value;  ///< integers of any size, one per batch row
  ValueId rest = no_value;     ///< mask that hides further keys; no_value: none
};

class Reading {
 public:
  Reading(const Reader& reader, const Op& op, const AttentionShape& shape) : reader_(reader), op_(op), shape_(shape) {}

  std::optional<Lengths> run() {
    const ValueId mask = op_.operands[attention_mask];
    if (const auto found = lengths_of(mask)) return Lengths{*found, no_value};
    const Op* both = reader_.op(mask, Kind::elementwise);
    if (reader_.type(mask).dtype != DType::boolean || both == nullptr) return std::nullopt;
    const auto function = reader_.function_of(mask);
    if (function != logical_and && function != bitwise_and) return std::nullopt;
    for (const std::size_t i : {0, 1})
      if (const auto found = lengths_of(both->operands[i])) return Lengths{*found, both->operands[1 - i]};
    return std::nullopt;
  }

 private:
  /// The lengths that a mask [B, 1, 1, T], or its broadcast, expresses; empty if it expresses none.
  std::optional<ValueId> lengths_of(ValueId mask) const {
    bool seen = true;  // whether the current value is true for visible keys
    ValueId value = mask;
    bool turned = reader_.type(mask).dtype == DType::boolean;
    for (int step = 0; step < 16; ++step) {
      const Op* op = reader_.op(value);
      if (op == nullptr) return std::nullopt;
      if (op->kind == Kind::reshape || op->kind == Kind::broadcast) {
        value = op->operands[0];
        continue;
      }
      const auto function = reader_.function_of(value);
      if (function == logical_not && turned) {
        seen = !seen;
        value = op->operands[0];
      } else if (function == select && !turned && !reader_.number(op->operands[0])) {
        const bool hides_true = hides(op->operands[1]) && is_zero(op->operands[2]);
        if (!hides_true && !(is_zero(op->operands[1]) && hides(op->operands[2]))) return std::nullopt;
        seen = !hides_true;
        turned = true;
        value = op->operands[0];
      } else {
        return turned ? compared(*op, function, seen, mask) : std::nullopt;
      }
    }
    return std::nullopt;
  }

  /// The lengths in a comparison position < length, in any of its forms.
  std::optional<ValueId> compared(const Op& op, std::optional<Function> function, bool seen, ValueId mask) const {
    if (!function || op.kind != Kind::elementwise) return std::nullopt;
    const bool behind = function == less || function == greater_equal;  // the position is the first operand
    if (!behind && function != greater && function != less_equal) return std::nullopt;
    if (seen != (function == less || function == greater)) return std::nullopt;
    const ValueId position = op.operands[behind ? 0 : 1], length = op.operands[behind ? 1 : 0];
    if (!counts_up(position) || !is_integer(reader_.type(length).dtype)) return std::nullopt;
    const Shape& own = reader_.shape(length);
    if (element_count(own) != shape_.batch || (!own.empty() && own.back() != 1)) return std::nullopt;
    return in_place(op.results[0], mask) ? std::optional(narrow(length)) : std::nullopt;
  }

  /// Whether the comparison's rows are batch rows, and its last axis is the key axis.
  bool in_place(ValueId comparison, ValueId mask) const {
    const Shape &from = reader_.shape(comparison), &to = reader_.shape(mask);
    if (to.size() != 4 || element_count(from) != shape_.batch * shape_.cache) return false;
    const auto places = reader_.places(mask, comparison);
    if (!places || places->size() != from.size()) return false;
    for (std::size_t axis = 0; axis < from.size(); ++axis) {
      if (from[axis] == 1) continue;
      const std::int64_t wanted = axis + 1 == from.size() ? 3 : 0;
      if ((*places)[axis] != wanted || from[axis] != to[at(wanted)]) return false;
    }
    return true;
  }

  /// Whether a value contains 0, 1, 2, .. along its last axis.
  bool counts_up(ValueId value) const {
    const std::int64_t keys = shape_.cache;
    if (reader_.shape(value).empty() || reader_.shape(value).back() != keys) return false;
    if (!is_integer(reader_.type(value).dtype) || element_count(reader_.shape(value)) != keys) return false;
    const Op* op = reader_.op(value);
    while (op != nullptr && (op->kind == Kind::reshape || op->kind == Kind::convert) &&
           is_integer(reader_.type(op->operands[0]).dtype)) {
      value = op->operands[0];
      op = reader_.op(value);
    }
    if (op != nullptr && op->kind == Kind::iota)
      return reader_.shape(value)[at(op->attributes.integer("dim"))] == keys && bits(reader_.type(value).dtype) >= 32;
    const Weight* weight = reader_.weight(value);
    if (weight == nullptr || weight->source != Weight::Source::data || weight->trainable) return false;
    for (std::int64_t i = 0; i < keys; ++i)
      if (weight->data.int_at(i) != i) return false;
    return true;
  }

  /// The integer value before it was widened.
  ValueId narrow(ValueId value) const {
    while (const Op* op = reader_.op(value, Kind::convert)) {
      const DType from = reader_.type(op->operands[0]).dtype;
      const bool widens = is_integer(from) && from != DType::boolean && bits(from) < bits(reader_.type(value).dtype);
      if (!widens) break;
      value = op->operands[0];
    }
    return value;
  }

  bool hides(ValueId value) const { return reader_.number(value) == -std::numeric_limits<double>::infinity(); }
  bool is_zero(ValueId value) const {
    if (const auto number = reader_.number(value)) return *number == 0;
    const Weight* weight = reader_.weight(reader_.peeled(value));
    if (weight == nullptr || weight->source != Weight::Source::data || weight->trainable) return false;
    for (std::int64_t i = 0; i < weight->data.size(); ++i)
      if (weight->data.at(i) != 0) return false;
    return true;
  }

  const Reader& reader_;
  const Op& op_;
  const AttentionShape& shape_;
};

bool masked_alone(const Op& op) {
  const auto there = [&](std::size_t i) { return op.operands.size() > i && op.operands[i] != no_value; };
  return op.kind == Kind::attention && there(attention_mask) && !there(attention_kv_len) && !there(attention_pages) &&
         op.attributes.find("kv_len") == nullptr;
}

/// Clamps lengths: a length above the cache's size sees the full cache, a negative length sees nothing.
ValueId within(Builder& builder, ValueId lengths, const AttentionShape& shape) {
  const DType dtype = builder.type(lengths).dtype;
  const bool fits = is_integer(dtype) && bits(dtype) >= 32;
  ValueId value = builder.reshape(fits ? lengths : builder.convert(lengths, DType::i32), {shape.batch});
  const DType wide = builder.type(value).dtype;
  return builder.elementwise(
      clamp, {builder.scalar(0, wide), value, builder.scalar(static_cast<double>(shape.cache), wide)}, "kv_len");
}

}  // namespace

void length_masks(Graph& graph, std::vector<Change>& changes) {
  for (std::size_t f = 0; f < graph.functions.size(); ++f) {
    GraphFunction& function = graph.functions[f];
    if (std::ranges::none_of(function.ops, masked_alone)) continue;
    // Moves constants to the front, because the builder reuses existing constants anywhere in the function.
    std::ranges::stable_partition(function.ops, [](const Op& op) { return op.kind == Kind::constant; });
    for (std::size_t i = 0; i < function.ops.size(); ++i) {
      if (!masked_alone(function.ops[i])) continue;
      const AttentionShape shape = attention_shape(function, function.ops[i]);
      const auto found = Reading(Reader(graph, function), function.ops[i], shape).run();
      if (!found) continue;
      Builder builder(graph, function.name);
      const std::size_t before = function.ops.size();
      const ValueId lengths = within(builder, found->lengths, shape);
      Op& op = function.ops[i];
      if (op.attributes.flag("causal") || op.attributes.integer("window", 0) > 0)  // where queries are stays
        op.attributes.set("causal_offset", shape.offset(op, shape.cache));
      const std::string was = "mask " + to_string(function.value(op.operands[attention_mask]).type);
      op.operands[attention_mask] = found->rest;
      op.operands.resize(attention_kv_len);
      op.operands.push_back(lengths);
      changes.push_back({"length_masks", function.name, op.name, was, "kv_len of each row", op.source});
      std::rotate(function.ops.begin() + static_cast<std::ptrdiff_t>(i),
                  function.ops.begin() + static_cast<std::ptrdiff_t>(before), function.ops.end());
      i += function.ops.size() - before;
    }
  }
}

}  // namespace tilesim::recognition
