// Kinds with data-dependent addresses: gather, embedding, dynamic_slice, dynamic_update.
#include <algorithm>

#include "tilesim/base/shape.hpp"
#include "tilesim/graph/kinds/rules.hpp"

namespace tilesim::rules {
namespace {

using Results = std::span<const TensorType>;

/// Extents of a gather's batch axes: those of the indices without the index vector.
Shape batch_shape(const TensorType& indices, std::int64_t vector_dim) {
  Shape shape = indices.shape;
  if (vector_dim < rank(indices)) shape.erase(shape.begin() + vector_dim);
  return shape;
}

/// StableHLO specification, gather: constraints C1 to C14.
void check_gather(const Op& op, const TensorType& x, const TensorType& indices) {
  want_integer(indices, "indices");
  const std::int64_t vector_dim = op.attributes.integer("index_vector_dim");
  if (vector_dim < 0 || vector_dim > rank(indices))
    refuse("attribute 'index_vector_dim' is out of range", std::to_string(vector_dim),
           "0 to " + std::to_string(rank(indices)));
  const std::int64_t components = vector_dim < rank(indices) ? indices.shape[at(vector_dim)] : 1;
  const Integers map = axes(op, "start_index_map", rank(x)), collapsed = axes(op, "collapsed_slice_dims", rank(x));
  if (static_cast<std::int64_t>(map.size()) != components)
    refuse("attribute 'start_index_map' does not fit the index vectors", to_string(map),
           std::to_string(components) + " axes");
  const Integers sizes = required_sized(op, "slice_sizes", rank(x), 0);
  for (std::int64_t axis = 0; axis < rank(x); ++axis) {
    const std::int64_t limit = contains(collapsed, axis) ? 1 : x.shape[at(axis)];
    if (sizes[at(axis)] > limit || sizes[at(axis)] > x.shape[at(axis)])
      refuse("attribute 'slice_sizes' is too large on axis " + std::to_string(axis), to_string(sizes),
             "at most " + std::to_string(limit));
  }
}

std::vector<TensorType> infer_gather(const Op& op, Types operands, const Graph&) {
  const TensorType &x = *operands[0], &indices = *operands[1];
  check_gather(op, x, indices);
  const Shape batch = batch_shape(indices, op.attributes.integer("index_vector_dim"));
  const Integers collapsed = op.attributes.integers("collapsed_slice_dims");
  Shape box;
  for (std::int64_t axis = 0; axis < rank(x); ++axis)
    if (!contains(collapsed, axis)) box.push_back(op.attributes.integers("slice_sizes")[at(axis)]);
  const auto result_rank = static_cast<std::int64_t>(batch.size() + box.size());
  const Integers offsets = axes(op, "offset_dims", result_rank);
  if (offsets.size() != box.size() || !std::ranges::is_sorted(offsets))
    refuse("attribute 'offset_dims' does not fit the slices", to_string(offsets),
           std::to_string(box.size()) + " axes in rising order");
  TensorType result{x.dtype, {}};
  std::size_t next_box = 0, next_batch = 0;
  for (std::int64_t axis = 0; axis < result_rank; ++axis)
    result.shape.push_back(contains(offsets, axis) ? box[next_box++] : batch[next_batch++]);
  return {result};
}

std::vector<TensorType> infer_embedding(const Op& op, Types operands, const Graph&) {
  const TensorType &table = *operands[0], &ids = *operands[1];
  want_rank(table, 2, "the table");
  want_integer(ids, "ids");
  const std::int64_t padding = op.attributes.integer("padding_index", -1);
  if (padding < -1 || padding >= table.shape[0])
    refuse("attribute 'padding_index' is out of range", std::to_string(padding),
           "-1 (none) to " + std::to_string(table.shape[0] - 1));
  TensorType result{table.dtype, ids.shape};
  result.shape.push_back(table.shape[1]);
  return {result};
}

Domain embedding_domain(const Op&, Types operands, Results results) {
  Domain domain = over(results[0].shape);
  domain.operands = {data_dependent(), identity(rank(*operands[1]))};
  domain.results.push_back(identity(rank(results[0])));
  return domain;
}

/// Requires one integer scalar per axis of x, from operand `first` on.
void check_starts(const TensorType& x, Types operands, std::size_t first) {
  if (operands.size() - first != x.shape.size())
    refuse("wrong number of start operands", std::to_string(operands.size() - first),
           std::to_string(x.shape.size()) + ", one per axis of x");
  for (std::size_t i = first; i < operands.size(); ++i) {
    want_integer(*operands[i], "a start");
    want_shape(*operands[i], {}, "a start");
  }
}

void check_inside(const Shape& part, const TensorType& x, const char* role) {
  bool inside = part.size() == x.shape.size();
  for (std::size_t i = 0; inside && i < part.size(); ++i) inside = part[i] <= x.shape[i];
  if (!inside) refuse(std::string(role) + " does not fit into x", to_string(part), "at most " + to_string(x.shape));
}

std::vector<TensorType> infer_dynamic_slice(const Op& op, Types operands, const Graph&) {
  const TensorType& x = *operands[0];
  const Integers sizes = required_sized(op, "sizes", rank(x), 0);
  check_inside(sizes, x, "the slice");
  check_starts(x, operands, 1);
  return {{x.dtype, sizes}};
}

std::vector<TensorType> infer_dynamic_update(const Op&, Types operands, const Graph&) {
  const TensorType &x = *operands[0], &update = *operands[1];
  want_dtype(update, x.dtype, "the update");
  check_inside(update.shape, x, "the update");
  check_starts(x, operands, 2);
  return {x};
}

KindInfo binary(Kind kind, std::string_view name) {
  return {.kind = kind,
          .name = name,
          .min_operands = 2,
          .max_operands = 2,
          .min_results = 1,
          .max_results = 1,
          .operand_names = {"x", "indices"},
          .attributes = {},
          .movement = true,
          .infer = nullptr,
          .flops = no_flops,
          .domain = opaque_domain};
}

}  // namespace

void add_indexing(std::vector<KindInfo>& table) {
  using A = AttributeType;
  KindInfo gather = binary(Kind::gather, "gather");
  gather.attributes = {required("offset_dims", A::integers),     required("collapsed_slice_dims", A::integers),
                       required("start_index_map", A::integers), required("index_vector_dim", A::integer),
                       required("slice_sizes", A::integers),     optional("mode", A::text, {"clip", "fill", "error"})};
  gather.infer = infer_gather;
  table.push_back(std::move(gather));

  KindInfo embedding = binary(Kind::embedding, "embedding");
  embedding.operand_names = {"table", "ids"};
  embedding.attributes = {optional("padding_index", A::integer)};
  embedding.infer = infer_embedding;
  embedding.domain = embedding_domain;
  table.push_back(std::move(embedding));

  KindInfo slice = binary(Kind::dynamic_slice, "dynamic_slice");
  slice.min_operands = 1;
  slice.max_operands = -1;
  slice.operand_names = {"x", "start..."};
  slice.attributes = {required("sizes", A::integers)};
  slice.infer = infer_dynamic_slice;
  table.push_back(std::move(slice));

  KindInfo update = binary(Kind::dynamic_update, "dynamic_update");
  update.max_operands = -1;
  update.operand_names = {"x", "update", "start..."};
  update.attributes = {optional("mode", A::text, {"clip", "error"})};
  update.infer = infer_dynamic_update;
  table.push_back(std::move(update));
}

}  // namespace tilesim::rules
