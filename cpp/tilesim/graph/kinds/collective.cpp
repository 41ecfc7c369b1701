// Kinds that several devices run together.
#include <algorithm>

#include "tilesim/base/shape.hpp"
#include "tilesim/graph/kinds/rules.hpp"

namespace tilesim::rules {
namespace {

using Results = std::span<const TensorType>;

/// Whether groups may have different sizes, because shapes do not depend on the size. Shorter groups are padded with
/// -1.
bool may_be_short(Kind kind) { return kind == Kind::all_reduce || kind == Kind::broadcast_devices; }

/// Size of the largest group. Checks that groups are disjoint and, if shapes depend on the size, of equal size.
std::int64_t group_size(const Op& op) {
  const Integers groups = op.attributes.integers("groups", {});
  const std::int64_t size = op.attributes.integer("group_size", 1);
  if (size < 1 || groups.size() % at(size) != 0)
    refuse("attribute 'groups' must be a multiple of 'group_size'", std::to_string(groups.size()),
           std::to_string(size));
  Integers sorted;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const bool padded = i % at(size) != 0 && groups[i] == -1 && may_be_short(op.kind);
    const bool after = i % at(size) != 0 && groups[i - 1] == -1;
    if (after && groups[i] != -1)
      refuse("attribute 'groups' has -1 before a device", to_string(groups), "-1 at the end");
    if (!padded) sorted.push_back(groups[i]);
  }
  std::ranges::sort(sorted);
  if (std::ranges::adjacent_find(sorted) != sorted.end() || (!sorted.empty() && sorted.front() < 0))
    refuse("attribute 'groups' names a device twice, or a negative one", to_string(groups),
           "distinct devices" + std::string(may_be_short(op.kind) ? ", -1 at the end of shorter groups" : ""));
  return size;
}

std::int64_t divided(const Op& op, const TensorType& x, const char* name) {
  const std::int64_t dim = axis(op, name, rank(x));
  if (x.shape[at(dim)] % group_size(op) != 0)
    refuse("the axis must be a multiple of the devices of a group", to_string(x), std::to_string(group_size(op)));
  return dim;
}

std::vector<TensorType> infer_same(const Op& op, Types operands, const Graph&) {
  group_size(op);
  return {*operands[0]};
}

std::vector<TensorType> infer_all_gather(const Op& op, Types operands, const Graph&) {
  TensorType result = *operands[0];
  result.shape[at(axis(op, "dim", rank(result)))] *= group_size(op);
  element_count(result.shape);
  return {result};
}

std::vector<TensorType> infer_reduce_scatter(const Op& op, Types operands, const Graph&) {
  TensorType result = *operands[0];
  result.shape[at(divided(op, result, "dim"))] /= group_size(op);
  return {result};
}

std::vector<TensorType> infer_all_to_all(const Op& op, Types operands, const Graph&) {
  TensorType result = *operands[0];
  result.shape[at(divided(op, result, "split_dim"))] /= group_size(op);
  result.shape[at(axis(op, "concat_dim", rank(result)))] *= group_size(op);
  return {result};
}

std::vector<TensorType> infer_permute(const Op& op, Types operands, const Graph&) {
  if (op.attributes.integers("pairs").size() % 2 != 0)
    refuse("attribute 'pairs' has an odd length", to_string(op.attributes.integers("pairs")), "source, target, ..");
  return {*operands[0]};
}

std::vector<TensorType> infer_device_index(const Op&, Types, const Graph&) { return {{DType::u32, {}}}; }

/// Each device combines its share of the other devices' elements.
Flops combining_flops(const Op& op, Types operands, Results) {
  Flops flops;
  const auto size = static_cast<double>(op.attributes.integer("group_size", 1));
  const double operations = static_cast<double>(count(*operands[0])) * (size - 1) / size;
  (op.attributes.text("combiner") == "multiply" ? flops.multiply : flops.simple) = operations;
  return flops;
}

KindInfo collective(Kind kind, std::string_view name, std::vector<AttributeInfo> attributes,
                    std::vector<TensorType> (*infer)(const Op&, Types, const Graph&)) {
  using A = AttributeType;
  for (AttributeInfo& common :
       std::vector<AttributeInfo>{optional("groups", A::integers), optional("group_size", A::integer),
                                  optional("channel", A::integer), optional("partitions", A::flag)})
    attributes.push_back(std::move(common));
  KindInfo made = of_one(kind, name);
  made.attributes = std::move(attributes);
  made.effect = Effect::collective;
  made.infer = infer;
  made.domain = opaque_domain;
  return made;
}

}  // namespace

void add_collectives(std::vector<KindInfo>& table) {
  using A = AttributeType;
  const AttributeInfo combiner =
      required("combiner", A::text, {"add", "multiply", "maximum", "minimum", "logical_and", "logical_or"});
  const AttributeInfo dim = required("dim", A::integer);
  KindInfo reduce = collective(Kind::all_reduce, "all_reduce", {combiner}, infer_same);
  reduce.flops = combining_flops;
  table.push_back(std::move(reduce));
  table.push_back(collective(Kind::all_gather, "all_gather", {dim}, infer_all_gather));
  KindInfo scatter = collective(Kind::reduce_scatter, "reduce_scatter", {combiner, dim}, infer_reduce_scatter);
  scatter.flops = combining_flops;
  table.push_back(std::move(scatter));
  table.push_back(collective(Kind::all_to_all, "all_to_all",
                             {required("split_dim", A::integer), required("concat_dim", A::integer)},
                             infer_all_to_all));
  table.push_back(
      collective(Kind::permute_devices, "permute_devices", {required("pairs", A::integers)}, infer_permute));
  table.push_back(collective(Kind::broadcast_devices, "broadcast_devices", {}, infer_same));
  KindInfo index = collective(Kind::device_index, "device_index", {required("axis", A::text, {"replica", "partition"})},
                              infer_device_index);
  index.min_operands = index.max_operands = 0;
  index.operand_names.clear();
  table.push_back(std::move(index));
}

}  // namespace tilesim::rules
