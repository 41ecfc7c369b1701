// scatter and window_scatter: several operand elements may contribute to one result element.
#include <algorithm>

#include "tilesim/base/shape.hpp"
#include "tilesim/graph/kinds/rules.hpp"

namespace tilesim::rules {
namespace {

using Results = std::span<const TensorType>;

/// StableHLO specification, scatter: constraints on dimension numbers.
std::vector<TensorType> infer_scatter(const Op& op, Types operands, const Graph&) {
  const TensorType &x = *operands[0], &indices = *operands[1], &updates = *operands[2];
  want_integer(indices, "indices");
  want_dtype(updates, x.dtype, "updates");
  const std::int64_t vector_dim = op.attributes.integer("index_vector_dim");
  if (vector_dim < 0 || vector_dim > rank(indices))
    refuse("attribute 'index_vector_dim' is out of range", std::to_string(vector_dim),
           "0 to " + std::to_string(rank(indices)));
  const std::int64_t components = vector_dim < rank(indices) ? indices.shape[at(vector_dim)] : 1;
  const Integers map = axes(op, "scatter_dims_to_operand_dims", rank(x)),
                 inserted = axes(op, "inserted_window_dims", rank(x)),
                 window = axes(op, "update_window_dims", rank(updates));
  if (static_cast<std::int64_t>(map.size()) != components)
    refuse("attribute 'scatter_dims_to_operand_dims' does not fit the index vectors", to_string(map),
           std::to_string(components) + " axes");
  if (static_cast<std::int64_t>(window.size() + inserted.size()) != rank(x))
    refuse("windows of updates and inserted axes do not make up the axes of x",
           std::to_string(window.size()) + " + " + std::to_string(inserted.size()), std::to_string(rank(x)));
  Shape batch = indices.shape;
  if (vector_dim < rank(indices)) batch.erase(batch.begin() + vector_dim);
  Shape given;
  for (std::int64_t axis = 0; axis < rank(updates); ++axis)
    if (!contains(window, axis)) given.push_back(updates.shape[at(axis)]);
  if (given != batch) refuse("updates do not fit the indices", to_string(updates), to_string(batch) + " and windows");
  std::size_t next = 0;
  for (std::int64_t axis = 0; axis < rank(x); ++axis) {
    const bool one = contains(inserted, axis);
    const std::int64_t size = one ? 1 : updates.shape[at(window[next++])];
    if (size > x.shape[at(axis)] && !(one && x.shape[at(axis)] == 0))
      refuse("a window of updates is larger than x", to_string(updates), to_string(x));
  }
  return {x};
}

Flops scatter_flops(const Op& op, Types operands, Results) {
  Flops flops;
  const auto elements = static_cast<double>(count(*operands[2]));
  const std::string combiner = op.attributes.text("combiner");
  if (combiner == "multiply") flops.multiply = elements;
  if (combiner != "multiply" && combiner != "set") flops.simple = elements;
  return flops;
}

std::vector<TensorType> infer_window_scatter(const Op& op, Types operands, const Graph&) {
  const TensorType &x = *operands[0], &source = *operands[1];
  want_dtype(source, x.dtype, "source");
  const Integers sizes = required_sized(op, "window", rank(x), 1), strides = sized(op, "strides", rank(x), 1, 1),
                 pads = sized(op, "pads", 2 * rank(x), 0, 0);
  Shape wanted;
  for (std::int64_t axis = 0; axis < rank(x); ++axis)
    wanted.push_back(window_extent(x.shape[at(axis)], sizes[at(axis)], strides[at(axis)], pads[at(2 * axis)],
                                   pads[at(2 * axis + 1)], 1, 1));
  want_shape(source, wanted, "source");
  return {x};
}

Flops window_scatter_flops(const Op& op, Types operands, Results) {
  Flops flops;
  const auto windows = static_cast<double>(count(*operands[1]));
  flops.simple = windows * (static_cast<double>(element_count(op.attributes.integers("window"))) + 1);
  return flops;
}

}  // namespace

void add_scatters(std::vector<KindInfo>& table) {
  using A = AttributeType;
  table.push_back(
      {.kind = Kind::scatter,
       .name = "scatter",
       .min_operands = 3,
       .max_operands = 3,
       .min_results = 1,
       .max_results = 1,
       .operand_names = {"x", "indices", "updates"},
       .attributes = {required("update_window_dims", A::integers), required("inserted_window_dims", A::integers),
                      required("scatter_dims_to_operand_dims", A::integers), required("index_vector_dim", A::integer),
                      required("combiner", A::text, {"set", "add", "multiply", "maximum", "minimum"}),
                      optional("mode", A::text, {"drop", "error"})},
       .infer = infer_scatter,
       .flops = scatter_flops,
       .domain = opaque_domain});
  table.push_back({.kind = Kind::window_scatter,
                   .name = "window_scatter",
                   .min_operands = 2,
                   .max_operands = 2,
                   .min_results = 1,
                   .max_results = 1,
                   .operand_names = {"x", "source"},
                   .attributes = {required("window", A::integers), optional("strides", A::integers),
                                  optional("pads", A::integers), required("select", A::text, {"maximum", "minimum"})},
                   .infer = infer_window_scatter,
                   .flops = window_scatter_flops,
                   .domain = opaque_domain});
}

}  // namespace tilesim::rules
