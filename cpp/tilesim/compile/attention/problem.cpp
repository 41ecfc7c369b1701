#include <algorithm>
#include <cmath>

#include "tilesim/base/index.hpp"
#include "tilesim/compile/attention/attention.hpp"
#include "tilesim/graph/attention.hpp"

namespace tilesim::lower {

std::optional<mapping::AttentionProblem> attention_problem(const GraphFunction& function, const Op& op,
                                                           const Share& machine) {
  const auto type = [&](std::size_t i) -> const TensorType& { return function.value(op.operands[i]).type; };
  const Numerics& numerics = machine.core.array.numerics;
  mapping::AttentionProblem p;
  p.stored = type(0).dtype;
  if (p.stored != DType::f32 && p.stored != DType::bf16 && p.stored != DType::f16) return std::nullopt;
  const auto multiplies = [&](DType dtype) {
    const auto rate = machine.core.array.rates.find(dtype);
    return rate != machine.core.array.rates.end() && rate->second > 0;
  };
  if (!machine.sorts.empty() || machine.core.array.count == 0 || numerics.accumulate != DType::f32) return std::nullopt;
  if (!multiplies(p.stored)) return std::nullopt;
  const AttentionShape shape = attention_shape(function, op);
  p.batch = shape.batch;
  p.heads = shape.heads;
  p.key_heads = shape.key_heads;
  p.queries = shape.queries;
  p.keys = shape.keys;
  p.depth = shape.depth;
  p.width = shape.width;
  p.lengths = shape.lengths;
  p.page = shape.page;
  p.lse = op.results.size() > 1;
  if (std::min({p.batch, p.heads, p.key_heads, p.queries, p.keys, p.depth, p.width}) < 1) return std::nullopt;
  p.causal = op.attributes.flag("causal");
  p.window = op.attributes.integer("window", 0);
  p.offset = shape.offset(op, p.keys);
  p.ends = p.lengths && op.attributes.find("causal_offset") == nullptr;
  // Drops masks that hide no key, such as those of one query that sees all of its cache.
  if (p.window > p.queries - 1 + p.offset) p.window = 0;
  if (p.offset >= p.keys - 1) p.causal = false;
  if (op.operands.size() > attention_mask && op.operands[attention_mask] != no_value) {
    const Shape& mask = type(attention_mask).shape;
    const auto spans = [&](std::size_t axis) { return axis + mask.size() >= 4 && mask[axis + mask.size() - 4] > 1; };
    p.mask = type(attention_mask).dtype;
    p.mask_heads = spans(1), p.mask_queries = spans(2), p.mask_keys = spans(3);
  }
  p.caps = op.attributes.number("soft_cap", 0) > 0;
  p.reshapes = p.mask.has_value() || p.caps;
  const double scale = op.attributes.number("scale", 1 / std::sqrt(static_cast<double>(p.depth)));
  p.scaled = scale != 1;
  if (!(scale > 0)) p.reshapes = true;
  int exponent = 0;
  p.power_of_two = p.scaled && std::frexp(scale, &exponent) == 0.5 && exponent > -16 && exponent < 4;
  return p;
}

}  // namespace tilesim::lower
