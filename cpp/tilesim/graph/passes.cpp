// Passes that depend on structure only: dead code, no-ops, common subexpressions.
#include "tilesim/graph/passes.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "tilesim/base/index.hpp"
#include "tilesim/graph/annotations.hpp"
#include "tilesim/graph/edit.hpp"
#include "tilesim/graph/kind.hpp"
#include "tilesim/graph/passes/sparse_plan.hpp"
#include "tilesim/graph/passes/zero_tiles.hpp"

namespace tilesim {

namespace {

using Integers = std::vector<std::int64_t>;

/// Removes functions that main does not reach; other functions keep their order.
void drop_unreached_functions(Graph& graph) {
  std::vector<std::int32_t> number(graph.functions.size(), -1), open{graph.main};
  while (!open.empty()) {
    const std::int32_t f = open.back();
    open.pop_back();
    if (number[at(f)] == 0) continue;
    number[at(f)] = 0;
    for (const Op& op : graph.functions[at(f)].ops) open.insert(open.end(), op.functions.begin(), op.functions.end());
  }
  std::vector<GraphFunction> kept;
  for (std::size_t f = 0; f < number.size(); ++f) {
    if (number[f] < 0) continue;
    number[f] = static_cast<std::int32_t>(kept.size());
    kept.push_back(std::move(graph.functions[f]));
  }
  graph.functions = std::move(kept);
  graph.main = number[at(graph.main)];
  for (GraphFunction& function : graph.functions)
    for (Op& op : function.ops)
      for (std::int32_t& callee : op.functions) callee = number[at(callee)];
}

void drop_unread_weights(Graph& graph) {
  std::set<std::string> read;
  for (const GraphFunction& function : graph.functions)
    for (const Op& op : function.ops) {
      if (op.kind == Kind::constant) read.insert(op.attributes.text("reference"));
      if (const ZeroTiles tiles = zero_tiles_of(op); tiles.operand >= 0)
        read.merge(std::set{tiles.before, tiles.beside});
      for (std::string& name : sparse_weights(op)) read.insert(std::move(name));
    }
  std::erase_if(graph.weights, [&](const auto& entry) { return !read.count(entry.first); });
}

}  // namespace

int remove_dead_code(Graph& graph) {
  int removed = 0;
  drop_unreached_functions(graph);
  for (GraphFunction& function : graph.functions) {
    removed += edit::sweep_dead(function);
    edit::order_values(function);
  }
  drop_unreached_functions(graph);
  drop_unread_weights(graph);
  return removed;
}

namespace {

bool all_of_value(const Integers& values, std::int64_t wanted) {
  return std::ranges::all_of(values, [&](std::int64_t value) { return value == wanted; });
}

bool is_iota(const Integers& values) {
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] != static_cast<std::int64_t>(i)) return false;
  return true;
}

/// The operand that an operation passes on unchanged; no_value if it changes the operand.
ValueId passed_on(const Graph& graph, const GraphFunction& function, const std::vector<int>& producer, const Op& op) {
  if (op.operands.empty() || op.results.size() != 1) return no_value;
  const ValueId x = op.operands[0];
  const TensorType& result = function.value(op.results[0]).type;
  const bool same = x != no_value && function.value(x).type == result;
  switch (op.kind) {
    case Kind::reshape:
    case Kind::convert:
    case Kind::bitcast:
      return same ? x : no_value;
    case Kind::transpose:
      return is_iota(op.attributes.integers("permutation")) ? x : no_value;
    case Kind::broadcast:
      return same && is_iota(op.attributes.integers("dims")) ? x : no_value;
    case Kind::slice:
      return same ? x : no_value;
    case Kind::reverse:
      return op.attributes.integers("dims").empty() ? x : no_value;
    case Kind::pad:
      return all_of_value(op.attributes.integers("low"), 0) && all_of_value(op.attributes.integers("high"), 0) &&
                     all_of_value(op.attributes.integers("interior", {}), 0)
                 ? x
                 : no_value;
    case Kind::concat:
      return op.operands.size() == 1 ? x : no_value;
    case Kind::copy:
      return op.attributes.flag("layout") ? no_value : x;
    case Kind::elementwise:
      break;
    default:
      return no_value;
  }
  const std::string& name = op.attributes.text("function");
  if (name == "identity") return x;
  if (name == "select") {
    const std::optional<double> known = edit::known_number(graph, function, producer, x);
    if (!known) return no_value;
    const ValueId chosen = op.operands[*known != 0 ? 1 : 2];
    return function.value(chosen).type == result ? chosen : no_value;
  }
  const bool commutes = name == "add" || name == "multiply";
  if (!commutes && name != "subtract" && name != "divide") return no_value;
  const double neutral = name == "add" || name == "subtract" ? 0 : 1;
  if (same && edit::known_number(graph, function, producer, op.operands[1]) == neutral) return x;
  const ValueId y = op.operands[1];
  if (commutes && function.value(y).type == result && edit::known_number(graph, function, producer, x) == neutral)
    return y;
  return no_value;
}

/// Merges a reshape of a reshape, or a transpose of a transpose, into one operation.
bool merge_with_producer(GraphFunction& function, const std::vector<int>& producer, Op& op) {
  if (op.kind != Kind::reshape && op.kind != Kind::transpose) return false;
  const int number = producer[at(op.operands[0])];
  if (number < 0 || function.ops[at(number)].kind != op.kind) return false;
  const Op& first = function.ops[at(number)];
  if (op.kind == Kind::transpose) {
    Integers combined = op.attributes.integers("permutation");
    for (std::int64_t& axis : combined) axis = first.attributes.integers("permutation")[at(axis)];
    op.attributes.set("permutation", combined);
  }
  op.operands[0] = first.operands[0];
  return true;
}

/// Applies the redirects to the outputs and removes dead operations.
void finish(GraphFunction& function, edit::Redirects& redirects, const std::vector<bool>& dead) {
  redirects.rewrite(function.outputs);
  std::vector<Op> ops;
  for (std::size_t i = 0; i < dead.size(); ++i)
    if (!dead[i]) ops.push_back(std::move(function.ops[i]));
  function.ops = std::move(ops);
  edit::order_values(function);
}

}  // namespace

int remove_no_ops(Graph& graph) {
  int removed = 0;
  for (GraphFunction& function : graph.functions) {
    const std::vector<int> producer = edit::producers(function);
    std::vector<bool> dead(function.ops.size(), false);
    edit::Redirects redirects(function);
    for (std::size_t i = 0; i < function.ops.size(); ++i) {
      Op& op = function.ops[i];
      redirects.rewrite(op.operands);  // producers precede readers
      if (merge_with_producer(function, producer, op)) ++removed;
      const ValueId x = passed_on(graph, function, producer, op);
      if (x == no_value || !edit::share_sharding(function, op.results[0], x)) continue;
      if (!redirects.add(function, op.results[0], x)) continue;
      dead[i] = true;
      ++removed;
    }
    finish(function, redirects, dead);
  }
  return removed;
}

namespace {

/// Text of an operation. Texts are equal exactly if two operations compute the same function of the same operands.
std::string signature(const Op& op) {
  std::string text = edit::meaning(op) + "/" + std::to_string(op.results.size());
  for (const ValueId id : op.operands) text += " " + std::to_string(id);
  for (const std::int32_t callee : op.functions) text += "@" + std::to_string(callee);
  return text;
}

/// Replaces all results of `op` by those of `kept`, or none of them.
bool merge_into(GraphFunction& function, edit::Redirects& redirects, const Op& op, const Op& kept) {
  for (std::size_t i = 0; i < op.results.size(); ++i)
    if (redirects.is_output(op.results[i]) && redirects.is_output(kept.results[i])) return false;
  for (std::size_t i = 0; i < op.results.size(); ++i)
    if (!edit::share_sharding(function, op.results[i], kept.results[i])) return false;
  for (std::size_t i = 0; i < op.results.size(); ++i) redirects.add(function, op.results[i], kept.results[i]);
  return true;
}

}  // namespace

int merge_common_subexpressions(Graph& graph) {
  int merged = 0;
  for (GraphFunction& function : graph.functions) {
    std::map<std::string, std::size_t> seen;
    std::vector<bool> dead(function.ops.size(), false);
    edit::Redirects redirects(function);
    for (std::size_t i = 0; i < function.ops.size(); ++i) {
      redirects.rewrite(function.ops[i].operands);
      if (info(function.ops[i].kind).effect != Effect::pure) continue;
      const auto [entry, inserted] = seen.emplace(signature(function.ops[i]), i);
      if (inserted || !merge_into(function, redirects, function.ops[i], function.ops[entry->second])) continue;
      dead[i] = true;
      ++merged;
    }
    finish(function, redirects, dead);
  }
  return merged;
}

}  // namespace tilesim
