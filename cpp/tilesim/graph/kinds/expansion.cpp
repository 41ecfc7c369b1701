// softmax, log_softmax, normalize and batch_norm in primitives, computed in f32 or wider.
#include "tilesim/graph/kinds/expansion.hpp"

#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/graph/edit.hpp"
#include "tilesim/graph/kinds/rules.hpp"
#include "tilesim/graph/passes.hpp"

namespace tilesim {

namespace expansion {

using rules::Integers;

ValueId Expander::add(const char* name, Kind kind, std::vector<ValueId> operands, Attributes attributes) {
  return builder_.op(kind, std::move(operands), std::move(attributes), op_.name + "." + name)[0];
}

ValueId Expander::apply(const char* name, Function function, std::vector<ValueId> operands) {
  return builder_.elementwise(function, std::move(operands), op_.name + "." + name);
}

ValueId Expander::reduce(const char* name, const char* combiner, ValueId x, Integers dims) {
  Attributes attributes;
  attributes.set("combiner", std::string(combiner));
  attributes.set("dims", std::move(dims));
  attributes.set("keep_dims", true);
  return add(name, Kind::reduce, {x}, std::move(attributes));
}

ValueId Expander::widened(ValueId x) { return back(x, rules::compute_dtype(type(x).dtype)); }

ValueId Expander::back(ValueId x, DType dtype) {
  if (type(x).dtype == dtype) return x;
  Attributes attributes;
  attributes.set("dtype", dtype);
  return add("convert", Kind::convert, {x}, std::move(attributes));
}

ValueId Expander::reshaped(const char* name, ValueId x, Shape to) {
  if (shape(x) == to) return x;
  Attributes attributes;
  attributes.set("shape", std::move(to));
  return add(name, Kind::reshape, {x}, std::move(attributes));
}

ValueId softmax(Expander& expander, ValueId x, std::int64_t dim) {
  const ValueId maximum = expander.reduce("maximum", "maximum", x, {dim});
  const ValueId shifted = expander.apply("shifted", Function::subtract, {x, maximum});
  const ValueId exponential = expander.apply("exp", Function::exp, {shifted});
  const ValueId sum = expander.reduce("sum", "add", exponential, {dim});
  return expander.apply("divide", Function::divide, {exponential, sum});
}

namespace {

ValueId log_softmax(Expander& expander, ValueId x, std::int64_t dim) {
  const ValueId maximum = expander.reduce("maximum", "maximum", x, {dim});
  const ValueId shifted = expander.apply("shifted", Function::subtract, {x, maximum});
  const ValueId sum = expander.reduce("sum", "add", expander.apply("exp", Function::exp, {shifted}), {dim});
  return expander.apply("subtract", Function::subtract, {shifted, expander.apply("log", Function::log, {sum})});
}

/// Scale or bias in the compute dtype, reshaped to broadcast to `extents` along `dims`.
ValueId parameter(Expander& expander, ValueId value, DType dtype, const Shape& extents, const Integers& dims) {
  Shape shape(extents.size(), 1);
  for (const std::int64_t dim : dims) shape[at(dim)] = extents[at(dim)];
  while (shape.size() > expander.shape(value).size() && shape.front() == 1) shape.erase(shape.begin());
  return expander.back(expander.reshaped("parameter", value, std::move(shape)), dtype);
}

ValueId zeros(Expander& expander, DType dtype, const Shape& shape) {
  Attributes attributes;
  attributes.set("shape", shape);
  attributes.set("dims", Integers{});
  return expander.add("mean", Kind::broadcast, {expander.number(0, dtype)}, std::move(attributes));
}

std::vector<ValueId> normalize(Expander& expander, const std::vector<ValueId>& operands) {
  const Op& op = expander.op();
  const TensorType type = expander.type(operands[0]);
  const rules::NormalizeShape shape = rules::normalize_shape(op, type);
  const std::string& mode = op.attributes.text("mode");
  const ValueId x = expander.reshaped("grouped", expander.widened(operands[0]), shape.extents);
  const DType dtype = expander.type(x).dtype;
  ValueId mean = no_value, centered = x;
  if (mode != "rms") {
    mean = expander.reduce("mean", "mean", x, shape.dims);
    centered = expander.apply("centered", Function::subtract, {x, mean});
  }
  const ValueId square = expander.apply("square", Function::multiply, {centered, centered});
  const ValueId variance = expander.reduce("variance", "mean", square, shape.dims);
  const ValueId epsilon = expander.number(op.attributes.number("epsilon"), dtype);
  const ValueId rstd =
      expander.apply("rstd", Function::rsqrt, {expander.apply("plus", Function::add, {variance, epsilon})});
  ValueId y = expander.apply("normalized", Function::multiply, {centered, rstd});
  y = expander.reshaped("ungrouped", y, type.shape);
  const Integers channels{1};
  const Integers& dims = mode == "layer" || mode == "rms" ? shape.dims : channels;
  if (operands.size() > 1 && operands[1] != no_value)
    y = expander.apply("scaled", Function::multiply, {y, parameter(expander, operands[1], dtype, type.shape, dims)});
  if (operands.size() > 2 && operands[2] != no_value)
    y = expander.apply("biased", Function::add, {y, parameter(expander, operands[2], dtype, type.shape, dims)});
  std::vector<ValueId> results{expander.back(y, type.dtype)};
  if (op.results.size() > 1)
    results.push_back(mean == no_value ? zeros(expander, dtype, shape.moments)
                                       : expander.reshaped("mean.shape", mean, shape.moments));
  if (op.results.size() > 2) results.push_back(expander.reshaped("rstd.shape", rstd, shape.moments));
  return results;
}

ValueId batch_norm(Expander& expander, const std::vector<ValueId>& operands) {
  const TensorType type = expander.type(operands[0]);
  const Integers dims{expander.op().attributes.integer("feature_dim")};
  const ValueId x = expander.widened(operands[0]);
  const DType dtype = expander.type(x).dtype;
  // Computes the factor per channel first, so that constant parameters can be folded.
  const ValueId epsilon = expander.number(expander.op().attributes.number("epsilon"), dtype);
  const ValueId variance = expander.apply("plus", Function::add, {expander.back(operands[4], dtype), epsilon});
  const ValueId rstd = expander.apply("rstd", Function::rsqrt, {variance});
  const ValueId factor = expander.apply("factor", Function::multiply, {expander.back(operands[1], dtype), rstd});
  const ValueId mean = parameter(expander, operands[3], dtype, type.shape, dims);
  const ValueId centered = expander.apply("centered", Function::subtract, {x, mean});
  const ValueId scaled =
      expander.apply("scaled", Function::multiply, {centered, parameter(expander, factor, dtype, type.shape, dims)});
  const ValueId bias = parameter(expander, operands[2], dtype, type.shape, dims);
  return expander.back(expander.apply("biased", Function::add, {scaled, bias}), type.dtype);
}

}  // namespace
}  // namespace expansion

std::vector<ValueId> expand_op(Builder& builder, const Op& op, const std::vector<ValueId>& operands) {
  expansion::Expander expander(builder, op);
  const DType dtype = expander.type(operands[0]).dtype;
  switch (op.kind) {
    case Kind::softmax:
      return {expander.back(expansion::softmax(expander, expander.widened(operands[0]), op.attributes.integer("dim")),
                            dtype)};
    case Kind::log_softmax:
      return {expander.back(
          expansion::log_softmax(expander, expander.widened(operands[0]), op.attributes.integer("dim")), dtype)};
    case Kind::normalize:
      return expansion::normalize(expander, operands);
    case Kind::batch_norm:
      return {expansion::batch_norm(expander, operands)};
    case Kind::attention:
      return expansion::attention(expander, operands);
    case Kind::rotary:
      return {expansion::rotary(expander, operands)};
    default:
      throw InternalError("kind '" + std::string(info(op.kind).name) + "' has no expansion");
  }
}

namespace {

/// Renames the results of the last appended operations to the results of `op`.
void adopt(GraphFunction& function, std::size_t first, const Op& op, const std::vector<ValueId>& results) {
  for (std::size_t i = first; i < function.ops.size(); ++i) {
    Op& part = function.ops[i];
    part.source = op.source;
    if (!part.results.empty() && part.results[0] == results[0]) part.name = op.name;
    for (std::size_t r = 0; r < op.results.size(); ++r) {
      if (results[r] == no_value) continue;
      std::ranges::replace(part.operands, results[r], op.results[r]);
      std::ranges::replace(part.results, results[r], op.results[r]);
    }
  }
}

}  // namespace

int replace_operations(Graph& graph, const std::function<bool(const Op&)>& which, const Build& build) {
  int changed = 0;
  for (std::size_t f = 0; f < graph.functions.size(); ++f) {
    GraphFunction& function = graph.functions[f];
    if (std::ranges::none_of(function.ops, which)) continue;
    // Moves constants to the front, because the builder reuses existing constants anywhere in the function.
    std::ranges::stable_partition(function.ops, [](const Op& op) { return op.kind == Kind::constant; });
    const std::vector<int> uses = edit::use_counts(function);
    Builder builder(graph, function.name);
    std::vector<Op> ops = std::move(function.ops);
    function.ops.clear();
    for (Op& op : ops) {
      if (!which(op)) {
        function.ops.push_back(std::move(op));
        continue;
      }
      std::vector<bool> wanted;
      for (const ValueId result : op.results)
        wanted.push_back(result != no_value && uses[static_cast<std::size_t>(result)] > 0);
      const std::size_t first = function.ops.size();
      adopt(function, first, op, build(builder, op, wanted));
      ++changed;
    }
    edit::order_values(function);
  }
  return changed;
}

int expand(Graph& graph, const std::function<bool(const Op&)>& which) {
  return replace_operations(
      graph, [&](const Op& op) { return info(op.kind).composite && (!which || which(op)); },
      [](Builder& builder, const Op& op, const std::vector<bool>&) { return expand_op(builder, op, op.operands); });
}

}  // namespace tilesim
