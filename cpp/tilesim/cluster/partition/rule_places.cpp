// Properties of kinds with positions: pieces of an axis, indices that enumerate one, queries that see by position.
#include <algorithm>

#include "tilesim/base/index.hpp"
#include "tilesim/cluster/partition/rule.hpp"
#include "tilesim/graph/attention.hpp"

namespace tilesim::partitioning::rules_of_kinds {

namespace {
using Integers = std::vector<std::int64_t>;
}

bool sees_by_place(const Op& op) { return op.attributes.flag("causal") || op.attributes.integer("window", 0) > 0; }

void divides_keys(const Op&, const Types& types, Rule& rule) {
  const auto named = std::ranges::find(rule.factors, "t", &Factor::name);
  if (rule.operands[attention_k].size() != 4 || types[attention_k]->shape[2] < 2) return;
  rule.keys = static_cast<int>(named - rule.factors.begin());
  // The full cache: attribute kv_len counts from a part's first key.
  *named = {
      .name = "t", .extent = types[attention_k]->shape[2], .sort = Factor::Sort::reduced, .combiner = "add", .why = {}};
  for (const std::size_t operand : {attention_k, attention_v}) rule.operands[operand][2] = {rule.keys};
  if (types.size() > attention_mask && types[attention_mask] && !types[attention_mask]->shape.empty() &&
      types[attention_mask]->shape.back() > 1)
    rule.operands[attention_mask].back() = {rule.keys};
}

int pieces(Rule& rule, std::size_t axis, std::int64_t extent, DType dtype) {
  rule.factors.push_back({.name = "rows" + std::to_string(axis),
                          .extent = extent,
                          .sort = Factor::Sort::reduced,
                          .combiner = dtype == DType::boolean ? "logical_or" : "add",
                          .instead = true,
                          .why = {}});
  return static_cast<int>(rule.factors.size()) - 1;
}

void joins(const GraphFunction& function, const Op& op, Rule& rule) {
  Join& join = rule.join;
  join.axis = at(op.attributes.integer("dim"));
  join.factor = static_cast<int>(rule.factors.size());
  for (std::size_t k = 0; k < op.operands.size(); ++k) {
    const std::int64_t extent = function.value(op.operands[k]).type.shape[join.axis];
    const auto same = std::ranges::find(op.operands, op.operands[k]) - op.operands.begin();
    // A single element is not sharded: every device has it.
    join.stretches.push_back({0, extent, join.extent, extent, extent > 1, at(same)});
    if (extent > 1) rule.operands[k][join.axis].push_back(join.factor);
    join.extent += extent;
  }
  rule.factors.push_back({.name = "joined", .extent = join.extent, .combiner = {}, .why = {}});
  rule.results[0][join.axis].push_back(join.factor);
}

void scans(const GraphFunction& function, const Op& op, Rule& rule) {
  const TensorType& x = function.value(op.operands[0]).type;
  if (!has_neutral(op.attributes.text("combiner"), x.dtype)) return;
  const auto axis = at(op.attributes.integer("dim"));
  rule.scan = static_cast<int>(rule.factors.size());
  rule.factors.push_back({.name = "scanned", .extent = x.shape[axis], .combiner = {}, .why = {}});
  rule.operands[0][axis].push_back(rule.scan);
  rule.results[0][axis].push_back(rule.scan);
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
