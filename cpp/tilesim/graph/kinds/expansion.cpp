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

ValueId Parts::add(const char* name, Kind kind, std::vector<ValueId> operands, Attributes attributes) {
  return builder_.op(kind, std::move(operands), std::move(attributes), op_.name + "." + name)[0];
}

ValueId Parts::apply(const char* name, Function function, std::vector<ValueId> operands) {
  return builder_.elementwise(function, std::move(operands), op_.name + "." + name);
}

ValueId Parts::reduce(const char* name, const char* combiner, ValueId x, Integers dims) {
  Attributes attributes;
  attributes.set("combiner", std::string(combiner));
  attributes.set("dims", std::move(dims));
  attributes.set("keep_dims", true);
  return add(name, Kind::reduce, {x}, std::move(attributes));
}

ValueId Parts::widened(ValueId x) { return back(x, rules::compute_dtype(type(x).dtype)); }

ValueId Parts::back(ValueId x, DType dtype) {
  if (type(x).dtype == dtype) return x;
  Attributes attributes;
  attributes.set("dtype", dtype);
  return add("convert", Kind::convert, {x}, std::move(attributes));
}

ValueId Parts::reshaped(const char* name, ValueId x, Shape to) {
  if (shape(x) == to) return x;
  Attributes attributes;
  attributes.set("shape", std::move(to));
  return add(name, Kind::reshape, {x}, std::move(attributes));
}

ValueId softmax(Parts& parts, ValueId x, std::int64_t dim) {
  const ValueId maximum = parts.reduce("maximum", "maximum", x, {dim});
  const ValueId shifted = parts.apply("shifted", Function::subtract, {x, maximum});
  const ValueId exponential = parts.apply("exp", Function::exp, {shifted});
  const ValueId sum = parts.reduce("sum", "add", exponential, {dim});
  return parts.apply("divide", Function::divide, {exponential, sum});
}

namespace {

ValueId log_softmax(Parts& parts, ValueId x, std::int64_t dim) {
  const ValueId maximum = parts.reduce("maximum", "maximum", x, {dim});
  const ValueId shifted = parts.apply("shifted", Function::subtract, {x, maximum});
  const ValueId sum = parts.reduce("sum", "add", parts.apply("exp", Function::exp, {shifted}), {dim});
  return parts.apply("subtract", Function::subtract, {shifted, parts.apply("log", Function::log, {sum})});
}

/// Scale or bias in the compute dtype, shaped so that it broadcasts to `extents` along `dims`.
ValueId parameter(Parts& parts, ValueId value, DType dtype, const Shape& extents, const Integers& dims) {
  Shape shape(extents.size(), 1);
  for (const std::int64_t dim : dims) shape[at(dim)] = extents[at(dim)];
  while (shape.size() > parts.shape(value).size() && shape.front() == 1) shape.erase(shape.begin());
  return parts.back(parts.reshaped("parameter", value, std::move(shape)), dtype);
}

ValueId zeros(Parts& parts, DType dtype, const Shape& shape) {
  Attributes attributes;
  attributes.set("shape", shape);
  attributes.set("dims", Integers{});
  return parts.add("mean", Kind::broadcast, {parts.number(0, dtype)}, std::move(attributes));
}

std::vector<ValueId> normalize(Parts& parts, const std::vector<ValueId>& operands) {
  const Op& op = parts.op();
  const TensorType type = parts.type(operands[0]);
  const rules::NormalizeShape shape = rules::normalize_shape(op, type);
  const std::string& mode = op.attributes.text("mode");
  const ValueId x = parts.reshaped("grouped", parts.widened(operands[0]), shape.extents);
  const DType dtype = parts.type(x).dtype;
  ValueId mean = no_value, centered = x;
  if (mode != "rms") {
    mean = parts.reduce("mean", "mean", x, shape.dims);
    centered = parts.apply("centered", Function::subtract, {x, mean});
  }
  const ValueId square = parts.apply("square", Function::multiply, {centered, centered});
  const ValueId variance = parts.reduce("variance", "mean", square, shape.dims);
  const ValueId epsilon = parts.number(op.attributes.number("epsilon"), dtype);
  const ValueId rstd = parts.apply("rstd", Function::rsqrt, {parts.apply("plus", Function::add, {variance, epsilon})});
  ValueId y = parts.apply("normalized", Function::multiply, {centered, rstd});
  y = parts.reshaped("ungrouped", y, type.shape);
  const Integers channels{1};
  const Integers& dims = mode == "layer" || mode == "rms" ? shape.dims : channels;
  if (operands.size() > 1 && operands[1] != no_value)
    y = parts.apply("scaled", Function::multiply, {y, parameter(parts, operands[1], dtype, type.shape, dims)});
  if (operands.size() > 2 && operands[2] != no_value)
    y = parts.apply("biased", Function::add, {y, parameter(parts, operands[2], dtype, type.shape, dims)});
  std::vector<ValueId> results{parts.back(y, type.dtype)};
  if (op.results.size() > 1)
    results.push_back(mean == no_value ? zeros(parts, dtype, shape.moments)
                                       : parts.reshaped("mean.shape", mean, shape.moments));
  if (op.results.size() > 2) results.push_back(parts.reshaped("rstd.shape", rstd, shape.moments));
  return results;
}

ValueId batch_norm(Parts& parts, const std::vector<ValueId>& operands) {
  const TensorType type = parts.type(operands[0]);
  const Integers dims{parts.op().attributes.integer("feature_dim")};
  const ValueId x = parts.widened(operands[0]);
  const DType dtype = parts.type(x).dtype;
  // Per channel first, so that constant parameters fold to one factor.
  const ValueId epsilon = parts.number(parts.op().attributes.number("epsilon"), dtype);
  const ValueId variance = parts.apply("plus", Function::add, {parts.back(operands[4], dtype), epsilon});
  const ValueId rstd = parts.apply("rstd", Function::rsqrt, {variance});
  const ValueId factor = parts.apply("factor", Function::multiply, {parts.back(operands[1], dtype), rstd});
  const ValueId mean = parameter(parts, operands[3], dtype, type.shape, dims);
  const ValueId centered = parts.apply("centered", Function::subtract, {x, mean});
  const ValueId scaled =
      parts.apply("scaled", Function::multiply, {centered, parameter(parts, factor, dtype, type.shape, dims)});
  const ValueId bias = parameter(parts, operands[2], dtype, type.shape, dims);
  return parts.back(parts.apply("biased", Function::add, {scaled, bias}), type.dtype);
}

}  // namespace
}  // namespace expansion

std::vector<ValueId> expand_op(Builder& builder, const Op& op, const std::vector<ValueId>& operands) {
  expansion::Parts parts(builder, op);
  const DType dtype = parts.type(operands[0]).dtype;
  switch (op.kind) {
    case Kind::softmax:
      return {parts.back(expansion::softmax(parts, parts.widened(operands[0]), op.attributes.integer("dim")), dtype)};
    case Kind::log_softmax:
      return {
          parts.back(expansion::log_softmax(parts, parts.widened(operands[0]), op.attributes.integer("dim")), dtype)};
    case Kind::normalize:
      return expansion::normalize(parts, operands);
    case Kind::batch_norm:
      return {expansion::batch_norm(parts, operands)};
    case Kind::attention:
      return expansion::attention(parts, operands);
    case Kind::rotary:
      return {expansion::rotary(parts, operands)};
    default:
      throw InternalError("kind '" + std::string(info(op.kind).name) + "' has no expansion");
  }
}

namespace {

/// The operations just appended give `results`; from now on they are called as the results of `op`.
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
    // Constants first: the builder uses those that exist, wherever they are.
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
