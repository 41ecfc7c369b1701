// sort and top_k.
#include <algorithm>
#include <cmath>

#include "tilesim/base/shape.hpp"
#include "tilesim/graph/kinds/rules.hpp"

namespace tilesim::rules {
namespace {

using Results = std::span<const TensorType>;

void check_comparator(const Op& op, Types operands, const Graph& graph) {
  if (op.functions.size() != 1 || op.functions[0] < 0 || at(op.functions[0]) >= graph.functions.size())
    refuse("sort takes one comparator", std::to_string(op.functions.size()) + " functions", "1");
  const GraphFunction& comparator = graph.functions[at(op.functions[0])];
  std::vector<TensorType> wanted, given;
  for (const TensorType* operand : operands) wanted.insert(wanted.end(), 2, TensorType{operand->dtype, {}});
  for (const ValueId id : comparator.inputs) given.push_back(comparator.value(id).type);
  const bool fits = given == wanted && comparator.outputs.size() == 1 &&
                    comparator.value(comparator.outputs[0]).type == TensorType{DType::boolean, {}};
  if (!fits)
    refuse("the comparator has the wrong type", "function \"" + comparator.name + "\"",
           "two scalars per operand, and one bool");
}

std::vector<TensorType> infer_sort(const Op& op, Types operands, const Graph& graph) {
  std::vector<TensorType> results;
  axis(op, "dim", rank(*operands[0]));
  const std::int64_t keys = op.attributes.integer("keys", 1);
  if (keys < 1 || keys > static_cast<std::int64_t>(operands.size()))
    refuse("attribute 'keys' is out of range", std::to_string(keys), "1 to " + std::to_string(operands.size()));
  for (const TensorType* operand : operands) {
    want_shape(*operand, operands[0]->shape, "an operand of sort");
    results.push_back(*operand);
  }
  if (!op.functions.empty()) check_comparator(op, operands, graph);
  return results;
}

/// Comparisons of a merge sort: n log2 n per row.
double comparisons(const TensorType& x, std::int64_t dim) {
  const double extent = static_cast<double>(std::max<std::int64_t>(1, x.shape[at(dim)]));
  return static_cast<double>(count(x)) * std::ceil(std::log2(extent));
}

Flops sort_flops(const Op& op, Types operands, Results) {
  Flops flops;
  flops.simple = comparisons(*operands[0], op.attributes.integer("dim"));
  return flops;
}

std::vector<TensorType> infer_top_k(const Op& op, Types operands, const Graph&) {
  const TensorType& x = *operands[0];
  const std::int64_t dim = axis(op, "dim", rank(x)), k = op.attributes.integer("k");
  if (k < 0 || k > x.shape[at(dim)])
    refuse("attribute 'k' is out of range", std::to_string(k), "0 to " + std::to_string(x.shape[at(dim)]));
  TensorType values = x, indices = x;
  values.shape[at(dim)] = indices.shape[at(dim)] = k;
  indices.dtype = op.attributes.find("dtype") ? op.attributes.dtype("dtype") : DType::i64;
  want_integer(indices, "the result 'indices'");
  return {values, indices};
}

/// Compares every element once with the smallest of the k kept elements.
Flops top_k_flops(const Op&, Types operands, Results) {
  Flops flops;
  flops.simple = static_cast<double>(count(*operands[0]));
  return flops;
}

}  // namespace

void add_orders(std::vector<KindInfo>& table) {
  using A = AttributeType;
  table.push_back({.kind = Kind::sort,
                   .name = "sort",
                   .min_operands = 1,
                   .max_operands = -1,
                   .min_results = 1,
                   .max_results = -1,
                   .operand_names = {"x..."},
                   .attributes = {required("dim", A::integer), optional("keys", A::integer),
                                  optional("descending", A::flag), optional("stable", A::flag)},
                   .infer = infer_sort,
                   .flops = sort_flops,
                   .domain = opaque_domain});
  table.push_back({.kind = Kind::top_k,
                   .name = "top_k",
                   .min_operands = 1,
                   .max_operands = 1,
                   .min_results = 2,
                   .max_results = 2,
                   .operand_names = {"x"},
                   .attributes = {required("dim", A::integer), required("k", A::integer), optional("largest", A::flag),
                                  optional("dtype", A::dtype)},
                   .infer = infer_top_k,
                   .flops = top_k_flops,
                   .domain = opaque_domain});
}

}  // namespace tilesim::rules
