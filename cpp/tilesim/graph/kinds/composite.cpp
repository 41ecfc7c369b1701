// Kinds with an expansion into primitives: softmax, log_softmax, normalize, batch_norm.
#include <algorithm>

#include "tilesim/base/shape.hpp"
#include "tilesim/graph/builder.hpp"
#include "tilesim/graph/kinds/expansion.hpp"
#include "tilesim/graph/kinds/rules.hpp"

namespace tilesim::rules {

Flops expansion_flops(const Op& op, Types operands, std::span<const TensorType>) {
  Graph graph;
  Builder builder(graph, "expansion");
  std::vector<ValueId> inputs;
  for (const TensorType* operand : operands)
    inputs.push_back(operand ? builder.input("x" + std::to_string(inputs.size()), *operand) : no_value);
  expand_op(builder, op, inputs);
  Flops total;
  for (const Op& part : graph.functions[0].ops) total += flops(graph, graph.functions[0], part);
  return total;
}

NormalizeShape normalize_shape(const Op& op, const TensorType& x) {
  NormalizeShape result;
  const std::string& mode = op.attributes.text("mode");
  if (mode == "layer" || mode == "rms") {
    result.extents = result.moments = x.shape;
    result.dims = axes(op, "dims", rank(x));
    if (result.dims.empty() || !std::ranges::is_sorted(result.dims))
      refuse("attribute 'dims' of normalize is empty or not in rising order", to_string(result.dims),
             "at least one axis");
    for (const std::int64_t axis : result.dims) {
      result.parameter.push_back(x.shape[at(axis)]);
      result.moments[at(axis)] = 1;
    }
    return result;
  }
  if (rank(x) < 2) refuse("normalize by groups needs [N, C, ...]", to_string(x), "at least 2 axes");
  const std::int64_t channels = x.shape[1];
  const std::int64_t groups = mode == "instance" ? channels : op.attributes.integer("groups", 1);
  if (groups < (channels == 0 ? 0 : 1) || (groups > 0 && channels % groups != 0))
    refuse("the channels are not a multiple of the groups",
           std::to_string(channels) + " channels, " + std::to_string(groups) + " groups",
           "a positive divisor of the channels");
  result.extents = {x.shape[0], groups, groups == 0 ? 0 : channels / groups};
  result.extents.insert(result.extents.end(), x.shape.begin() + 2, x.shape.end());
  for (std::int64_t axis = 2; axis < static_cast<std::int64_t>(result.extents.size()); ++axis)
    result.dims.push_back(axis);
  result.parameter = {channels};
  result.moments = {x.shape[0], groups};
  return result;
}

namespace {

using Results = std::span<const TensorType>;

/// Dims d0.. over x, and for each of `dims` a reduced dim r0.. over the row.
Domain row_domain(const TensorType& x, const Integers& dims) {
  Domain domain = over(x.shape);
  Access read = identity(rank(x));
  for (const std::int64_t axis : dims) {
    read.axes[at(axis)] = along(static_cast<std::int64_t>(domain.extents.size()));
    domain.extents.push_back(x.shape[at(axis)]);
    domain.names.push_back("r" + std::to_string(axis));
    domain.reduction.push_back(true);
  }
  domain.operands.push_back(std::move(read));
  domain.results.push_back(identity(rank(x)));
  return domain;
}

std::vector<TensorType> infer_softmax(const Op& op, Types operands, const Graph&) {
  want_float(*operands[0], "x");
  axis(op, "dim", rank(*operands[0]));
  return {*operands[0]};
}

Domain softmax_domain(const Op& op, Types operands, Results) {
  return row_domain(*operands[0], {op.attributes.integer("dim")});
}

std::vector<TensorType> infer_normalize(const Op& op, Types operands, const Graph&) {
  const TensorType& x = *operands[0];
  want_float(x, "x");
  if (op.attributes.number("epsilon") < 0)
    refuse("attribute 'epsilon' is negative", std::to_string(op.attributes.number("epsilon")), "at least 0");
  const NormalizeShape shape = normalize_shape(op, x);
  for (std::size_t i = 1; i < operands.size(); ++i) {
    if (!operands[i]) continue;
    want_float(*operands[i], i == 1 ? "scale" : "bias");
    want_shape(*operands[i], shape.parameter, i == 1 ? "scale" : "bias");
  }
  std::vector<TensorType> results{x};
  while (results.size() < op.results.size()) results.push_back({compute_dtype(x.dtype), shape.moments});
  return results;
}

Domain normalize_domain(const Op& op, Types operands, Results results) {
  const std::string& mode = op.attributes.text("mode");
  if (mode == "group" || mode == "instance") return opaque_domain(op, operands, results);
  const Integers& dims = op.attributes.integers("dims");
  Domain domain = row_domain(*operands[0], dims);
  for (std::size_t i = 1; i < operands.size(); ++i) {
    Access parameter;
    for (const std::int64_t axis : dims) parameter.axes.push_back(along(axis));
    domain.operands.push_back(operands[i] ? parameter : Access{});
  }
  Access moments = identity(rank(*operands[0]));
  for (const std::int64_t axis : dims) moments.axes[at(axis)] = AxisAccess{};
  while (domain.results.size() < results.size()) domain.results.push_back(moments);
  return domain;
}

std::vector<TensorType> infer_batch_norm(const Op& op, Types operands, const Graph&) {
  const TensorType& x = *operands[0];
  want_float(x, "x");
  const std::int64_t dim = axis(op, "feature_dim", rank(x));
  if (op.attributes.number("epsilon") < 0)
    refuse("attribute 'epsilon' is negative", std::to_string(op.attributes.number("epsilon")), "at least 0");
  constexpr const char* roles[] = {"x", "scale", "bias", "mean", "variance"};
  for (std::size_t i = 1; i < operands.size(); ++i) {
    want_float(*operands[i], roles[i]);
    want_shape(*operands[i], {x.shape[at(dim)]}, roles[i]);
  }
  return {x};
}

Domain batch_norm_domain(const Op& op, Types operands, Results results) {
  Domain domain = over(results[0].shape);
  domain.operands.push_back(identity(rank(results[0])));
  Access channel;
  channel.axes.push_back(along(op.attributes.integer("feature_dim")));
  while (domain.operands.size() < operands.size()) domain.operands.push_back(channel);
  domain.results.push_back(identity(rank(results[0])));
  return domain;
}

KindInfo composite(Kind kind, std::string_view name) {
  KindInfo made = of_one(kind, name);
  made.composite = true;
  made.flops = expansion_flops;
  made.domain = nullptr;
  return made;
}

}  // namespace

void add_composite(std::vector<KindInfo>& table) {
  using A = AttributeType;
  for (const Kind kind : {Kind::softmax, Kind::log_softmax}) {
    KindInfo softmax = composite(kind, kind == Kind::softmax ? "softmax" : "log_softmax");
    softmax.attributes = {required("dim", A::integer)};
    softmax.infer = infer_softmax;
    softmax.domain = softmax_domain;
    table.push_back(std::move(softmax));
  }

  KindInfo normalize = composite(Kind::normalize, "normalize");
  normalize.max_operands = 3;
  normalize.max_results = 3;
  normalize.operand_names = {"x", "scale", "bias"};
  normalize.attributes = {required("mode", A::text, {"layer", "rms", "group", "instance"}),
                          optional("dims", A::integers), optional("groups", A::integer),
                          required("epsilon", A::number)};
  normalize.infer = infer_normalize;
  normalize.domain = normalize_domain;
  table.push_back(std::move(normalize));

  KindInfo batch_norm = composite(Kind::batch_norm, "batch_norm");
  batch_norm.min_operands = batch_norm.max_operands = 5;
  batch_norm.operand_names = {"x", "scale", "bias", "mean", "variance"};
  batch_norm.attributes = {required("feature_dim", A::integer), required("epsilon", A::number)};
  batch_norm.infer = infer_batch_norm;
  batch_norm.domain = batch_norm_domain;
  table.push_back(std::move(batch_norm));
}

}  // namespace tilesim::rules
