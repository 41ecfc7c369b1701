// ragged_contract: a product whose rows select their matrix by group, as in a mixture of experts.
#include "tilesim/base/shape.hpp"
#include "tilesim/graph/kinds/rules.hpp"

namespace tilesim::rules {
namespace {

/// a [M, K], b [G, K, N] (or [G, N, K]), group_sizes [G]: multiplies the first group_sizes[0] rows of a by b[0], the
/// next rows by b[1], and so on; rows after the sum of the sizes give zeros.
std::vector<TensorType> infer_ragged(const Op& op, Types operands, const Graph&) {
  const TensorType &a = *operands[0], &b = *operands[1], &sizes = *operands[2];
  want_rank(a, 2, "a");
  want_rank(b, 3, "b");
  const bool codes = a.dtype == DType::i8;  // their sums are i32
  if (!codes) want_float(a, "a");
  want_dtype(b, a.dtype, "b");
  want_integer(sizes, "group_sizes");
  want_shape(sizes, {b.shape[0]}, "group_sizes");
  const bool transposed = op.attributes.flag("b_transposed");
  const std::int64_t depth = b.shape[transposed ? 2 : 1], width = b.shape[transposed ? 1 : 2];
  if (a.shape[1] != depth)
    refuse("the contracted axes of a and b differ in extent", to_string(a) + " and " + to_string(b), "equal extents");
  return {{codes ? DType::i32 : a.dtype, {a.shape[0], width}}};
}

Flops ragged_flops(const Op&, Types operands, std::span<const TensorType> results) {
  Flops flops;
  flops.matrix = 2 * static_cast<double>(count(results[0])) * static_cast<double>(operands[0]->shape[1]);
  return flops;
}

}  // namespace

void add_ragged(std::vector<KindInfo>& table) {
  table.push_back({.kind = Kind::ragged_contract,
                   .name = "ragged_contract",
                   .min_operands = 3,
                   .max_operands = 3,
                   .min_results = 1,
                   .max_results = 1,
                   .operand_names = {"a", "b", "group_sizes"},
                   .attributes = {optional("b_transposed", AttributeType::flag)},
                   .infer = infer_ragged,
                   .flops = ragged_flops,
                   .domain = opaque_domain});
}

}  // namespace tilesim::rules
