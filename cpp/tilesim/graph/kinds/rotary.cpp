// rotary: rotates pairs of elements of the last axis by an angle. The expansion moves elements, then computes in f32 or
// wider.
#include "tilesim/graph/kinds/expansion.hpp"
#include "tilesim/graph/kinds/rules.hpp"

namespace tilesim {

namespace rules {

namespace {

std::vector<TensorType> infer_rotary(const Op&, Types operands, const Graph&) {
  const TensorType& x = *operands[0];
  want_float(x, "x");
  if (x.shape.empty() || x.shape.back() % 2 != 0)
    refuse("rotary turns pairs of the last axis", to_string(x), "a last axis of even extent");
  constexpr const char* roles[] = {"x", "cos", "sin"};
  for (std::size_t i = 1; i < 3; ++i) {
    want_dtype(*operands[i], x.dtype, roles[i]);
    want_broadcastable(*operands[i], x.shape, roles[i]);
  }
  return {x};
}

}  // namespace

void add_rotary(std::vector<KindInfo>& table) {
  table.push_back({.kind = Kind::rotary,
                   .name = "rotary",
                   .min_operands = 3,
                   .max_operands = 3,
                   .min_results = 1,
                   .max_results = 1,
                   .operand_names = {"x", "cos", "sin"},
                   .attributes = {required("style", AttributeType::text, {"halves", "pairs"})},
                   .composite = true,
                   .infer = infer_rotary,
                   .flops = expansion_flops,
                   .domain = opaque_domain});
}

}  // namespace rules

namespace expansion {

namespace {

/// Elements [start, start + extent) of axis `dim`.
ValueId part(Expander& expander, const char* name, ValueId x, std::size_t dim, std::int64_t start,
             std::int64_t extent) {
  rules::Integers low(expander.shape(x).size(), 0), high = expander.shape(x), ones(low.size(), 1);
  low[dim] = start;
  high[dim] = start + extent;
  Attributes attributes;
  attributes.set("start", low);
  attributes.set("limit", high);
  attributes.set("stride", ones);
  return expander.add(name, Kind::slice, {x}, std::move(attributes));
}

}  // namespace

ValueId rotary(Expander& expander, const std::vector<ValueId>& operands) {
  const TensorType type = expander.type(operands[0]);
  const bool halves = expander.op().attributes.text("style") == "halves";
  const std::int64_t width = type.shape.back();
  ValueId x = operands[0];
  if (!halves) {  // [.., D / 2, 2]: pairs are the last axis
    Shape pairs = type.shape;
    pairs.back() = width / 2;
    pairs.push_back(2);
    x = expander.reshaped("pairs", x, pairs);
  }
  const std::size_t dim = expander.shape(x).size() - 1;
  const std::int64_t half = halves ? width / 2 : 1;
  const ValueId low = part(expander, "low", x, dim, 0, half), high = part(expander, "high", x, dim, half, half);
  Attributes attributes;
  attributes.set("dim", static_cast<std::int64_t>(dim));
  const ValueId turned = expander.reshaped(
      "turned",
      expander.add("concat", Kind::concat, {expander.apply("negated", Function::negate, {high}), low}, attributes),
      type.shape);
  const auto times = [&](const char* name, ValueId a, ValueId b) {
    return expander.apply(name, Function::multiply, {expander.widened(a), expander.widened(b)});
  };
  const ValueId straight = times("cosine", operands[0], operands[1]), across = times("sine", turned, operands[2]);
  return expander.back(expander.apply("sum", Function::add, {straight, across}), type.dtype);
}

}  // namespace expansion
}  // namespace tilesim
