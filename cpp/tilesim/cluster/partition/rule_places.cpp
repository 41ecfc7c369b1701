// What rules ask of kinds that name places: pieces of an axis, indices that number one, queries that see by place.
#include <algorithm>

#include "tilesim/base/index.hpp"
#include "tilesim/cluster/partition/rule.hpp"

namespace tilesim::partitioning::rules_of_kinds {

namespace {
using Integers = std::vector<std::int64_t>;
}

bool sees_by_place(const Op& op) { return op.attributes.flag("causal") || op.attributes.integer("window", 0) > 0; }

int pieces(Rule& rule, std::size_t axis, std::int64_t extent, DType dtype) {
  rule.factors.push_back({.name = "rows" + std::to_string(axis),
                          .extent = extent,
                          .sort = Factor::Sort::reduced,
                          .combiner = dtype == DType::boolean ? "logical_or" : "add",
                          .instead = true,
                          .why = {}});
  return static_cast<int>(rule.factors.size()) - 1;
}

std::map<std::int64_t, std::size_t> numbered_axes(const GraphFunction& function, const Op& op) {
  const bool gathers = op.kind == Kind::gather;
  const Integers& map = op.attributes.integers(gathers ? "start_index_map" : "scatter_dims_to_operand_dims");
  const std::int64_t vector = op.attributes.integer("index_vector_dim");
  const auto producer = [&](ValueId value) -> const Op* {
    const Op* found = nullptr;
    for (std::size_t i = function.ops.size(); i-- > 0;) {
      const Op& made = function.ops[i];
      if (std::ranges::find(made.results, value) == made.results.end()) continue;
      found = &made;
      if (made.kind != Kind::convert && made.kind != Kind::copy) break;
      value = made.operands[0];
    }
    return found;
  };
  std::map<std::int64_t, std::size_t> numbered;
  const Shape& x = function.value(op.operands[0]).type.shape;
  const Shape& indices = function.value(op.operands[1]).type.shape;
  const Op* joined = producer(op.operands[1]);
  if (!joined || joined->kind != Kind::concat || joined->attributes.integer("dim") != vector) return numbered;
  std::int64_t component = 0;
  for (const ValueId part : joined->operands) {
    const Op* made = producer(part);
    const std::int64_t count = function.value(part).type.shape[at(vector)];
    if (count == 1 && made && made->kind == Kind::iota && made->attributes.integer("dim") != vector) {
      const std::size_t batch = at(made->attributes.integer("dim"));
      if (indices[batch] == x[at(map[at(component)])]) numbered[map[at(component)]] = batch;
    }
    component += count;
  }
  return numbered;
}

}  // namespace tilesim::partitioning::rules_of_kinds
