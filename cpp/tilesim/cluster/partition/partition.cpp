#include "tilesim/cluster/partition/partition.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/cluster/partition/body.hpp"
#include "tilesim/graph/attention.hpp"
#include "tilesim/graph/kind.hpp"
#include "tilesim/graph/passes.hpp"

namespace tilesim::partitioning {

std::int32_t Module::copy_function(std::int32_t index) {
  if (const auto found = copied.find(index); found != copied.end()) return found->second;
  GraphFunction copy = source.functions[at(index)];
  for (Value& value : copy.values) value.sharding = nullptr;
  for (Op& op : copy.ops) {
    for (std::int32_t& callee : op.functions) callee = copy_function(callee);
    if (op.kind != Kind::constant) continue;
    const std::string& reference = op.attributes.text("reference");
    out.weights.emplace(reference, source.weights.at(reference));
  }
  out.functions.push_back(std::move(copy));
  return copied[index] = static_cast<std::int32_t>(out.functions.size()) - 1;
}

namespace {

void check_values(const Graph& graph) {
  for (const GraphFunction& function : graph.functions) {
    for (const Value& value : function.values) {
      if (!value.sharding || !value.sharding->given) continue;
      const std::string place = "function \"" + function.name + "\", value \"" + value.name + "\"";
      check_sharding(*value.sharding, *graph.mesh, value.type.shape.size(), place);
      if (!value.sharding->unreduced.empty())
        throw Unsupported(UserError::Parts{
            "a value is given in partial results", place, value.sharding->text(), "sharded or replicated axes", {}});
    }
  }
}

/// Axes along which a kind combines rows; its expansion can combine parts of rows.
std::vector<std::int64_t> row_axes(const Op& op) {
  if (op.kind == Kind::softmax || op.kind == Kind::log_softmax) return {op.attributes.integer("dim")};
  const bool rows =
      op.kind == Kind::normalize && (op.attributes.text("mode") == "layer" || op.attributes.text("mode") == "rms");
  return rows ? op.attributes.integers("dims") : std::vector<std::int64_t>{};
}

/// Whether an attention with heads sharded along their size becomes two products, because summing scores sends less
/// than gathering queries and keys.
bool sums_scores(const Grid& grid, const GraphFunction& function, const Op& op, const std::vector<Layout>& layouts) {
  if (op.kind != Kind::attention) return false;
  const AttentionShape shape = attention_shape(function, op);
  if (shape.paged()) return false;
  const Layout &q = layouts[at(op.operands[attention_q])], &k = layouts[at(op.operands[attention_k])];
  const Atoms& divided = q.axes[3].size() > k.axes[3].size() ? q.axes[3] : k.axes[3];
  // With fewer keys than the cache has, the slice of keys would leave parts on other devices.
  if (divided.empty() || (shape.keys != shape.cache && !k.axes[2].empty())) return false;
  const auto whole_size = [&](ValueId value) {  // bytes per device with the full last axis
    Layout layout = layouts[at(value)];
    if (layout.axes[3].empty()) return 0.0;
    layout.axes[3].clear();
    const TensorType local = local_type(grid, function.value(value).type, layout);
    return static_cast<double>(element_count(local.shape)) * static_cast<double>(bits(local.dtype)) / 8;
  };
  const DType dtype = function.value(op.operands[attention_q]).type.dtype;
  const TensorType scores{dtype == DType::f64 ? dtype : DType::f32,  // in the type of an expansion's scores
                          {shape.batch, shape.heads, shape.queries, shape.keys}};
  Layout layout = whole(4);
  for (const std::size_t axis : {0, 1, 2}) layout.axes[axis] = q.axes[axis];
  layout.axes[3] = k.axes[2];
  const TensorType local = local_type(grid, scores, layout);
  const double sums = 2 * static_cast<double>(element_count(local.shape)) * static_cast<double>(bits(local.dtype)) / 8;
  return sums < whole_size(op.operands[attention_q]) + whole_size(op.operands[attention_k]);
}

/// Expands operations whose combined rows are sharded into primitives. Returns whether there are any.
bool expand_divided_rows(const Grid& grid, Graph& graph, const Spread& spread) {
  std::set<std::string> names;
  for (std::size_t f = 0; f < graph.functions.size(); ++f)
    for (const Op& op : graph.functions[f].ops) {
      for (const std::int64_t axis : row_axes(op))
        for (const ValueId value : {op.operands[0], op.results[0]})
          if (!spread.layouts[f][at(value)].axes[at(axis)].empty()) names.insert(op.name);
      if (sums_scores(grid, graph.functions[f], op, spread.layouts[f])) names.insert(op.name);
    }
  return !names.empty() && expand(graph, [&](const Op& op) {
                             return names.contains(op.name) && (op.kind == Kind::attention || !row_axes(op).empty());
                           }) > 0;
}

Grid grid_of(const Graph& graph) {
  std::vector<const Sharding*> shardings;
  for (const GraphFunction& function : graph.functions)
    for (const Value& value : function.values)
      if (value.sharding && value.sharding->given) shardings.push_back(value.sharding.get());
  return {*graph.mesh, shardings};
}

std::vector<Border> borders(const Grid& grid, const GraphFunction& function, const std::vector<ValueId>& values,
                            const std::vector<Layout>& layouts) {
  std::vector<Border> result;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Value& value = function.value(values[i]);
    result.push_back({value.name, value.type, to_sharding(grid, layouts[i])});
  }
  return result;
}

std::vector<Layout> layouts_of(const Spread& spread, const Graph& graph, const std::vector<ValueId>& values) {
  std::vector<Layout> layouts;
  for (const ValueId value : values) layouts.push_back(spread.layouts[at(graph.main)][at(value)]);
  return layouts;
}

/// Makes sharded constants inputs of the entry function: each device has its part only. Returns names of weights.
std::vector<std::string> lift_constants(Graph& graph, Spread& spread) {
  GraphFunction& entry = graph.entry();
  const auto main = at(graph.main);
  std::vector<std::string> lifted;
  std::vector<Op> kept;
  std::vector<Rule> rules;
  for (std::size_t i = 0; i < entry.ops.size(); ++i) {
    Op& op = entry.ops[i];
    const bool constant = op.kind == Kind::constant;
    const Weight* weight = constant ? &graph.weights.at(op.attributes.text("reference")) : nullptr;
    if (weight && is_parameter(*weight) &&
        std::ranges::any_of(spread.layouts[main][at(op.results[0])].axes, [](const Atoms& a) { return !a.empty(); })) {
      lifted.push_back(op.attributes.text("reference"));
      entry.inputs.push_back(op.results[0]);
      continue;
    }
    kept.push_back(std::move(op));
    rules.push_back(std::move(spread.rules[main][i]));
  }
  entry.ops = std::move(kept);
  spread.rules[main] = std::move(rules);
  return lifted;
}

std::string shown(const Factor& factor, const Rule& rule) {
  const int index = static_cast<int>(&factor - rule.factors.data());
  std::string text = factor.name + "=" + std::to_string(factor.extent) + " ";
  if (factor.sort == Factor::Sort::whole) return text + "whole: " + factor.why;
  text += factor.sort == Factor::Sort::parallel ? "parallel" : "reduced by " + factor.combiner;
  if (!factor.uneven) text += ", even parts";
  const auto places = [&](const char* side, const std::vector<AxisFactors>& tensors) {
    for (std::size_t i = 0; i < tensors.size(); ++i)
      for (std::size_t axis = 0; axis < tensors[i].size(); ++axis)
        if (std::ranges::find(tensors[i][axis], index) != tensors[i][axis].end())
          text += std::string(" ") + side + std::to_string(i) + "[" + std::to_string(axis) + "]";
  };
  places("operand", rule.operands);
  places("result", rule.results);
  return text;
}

}  // namespace

Graph opened(const Graph& graph) {
  if (!graph.mesh)
    throw UserError({"the graph names no mesh", "graph \"" + graph.name + "\"", {}, "mesh=, such as \"x=2, y=4\"", {}});
  check_values(graph);
  Graph copy = graph;
  for (GraphFunction& function : copy.functions)
    for (Op& op : function.ops)
      if (op.kind == Kind::fused || op.kind == Kind::call)
        op.kind = crosses(op) ? Kind::fused : Kind::call;  // region borders are not inlined
  inline_calls(copy);
  pass_state_on(copy);
  lift_from_loops(copy);
  for (GraphFunction& function : copy.functions) {
    leave_out_empty_pieces(function);
    join_slices_of_pads(function);
  }
  remove_dead_code(copy);
  return copy;
}

Graph spread(const Graph& graph) {
  Graph result = opened(graph);
  const Grid grid = grid_of(result);
  const Spread spread = propagate(grid, result);
  for (std::size_t f = 0; f < result.functions.size(); ++f)
    for (std::size_t v = 0; v < result.functions[f].values.size(); ++v)
      result.functions[f].values[v].sharding = std::make_shared<Sharding>(to_sharding(grid, spread.layouts[f][v]));
  return result;
}

Partitioned partition(const Graph& graph) {
  Graph whole_graph = opened(graph);
  const Grid grid = grid_of(whole_graph);
  Spread spread = propagate(grid, whole_graph);
  // An expanded attention contains a softmax.
  while (expand_divided_rows(grid, whole_graph, spread)) spread = propagate(grid, whole_graph);
  take_slices_into_joins(grid, whole_graph, spread);
  const std::vector<std::string> lifted = lift_constants(whole_graph, spread);
  Partitioned result;
  Graph& local = result.graph;
  local.name = graph.name;
  local.mesh = graph.mesh;
  local.devices = grid.devices();
  const GraphFunction& entry = whole_graph.entry();
  const std::vector<Layout> inputs = layouts_of(spread, whole_graph, entry.inputs),
                            outputs = layouts_of(spread, whole_graph, entry.outputs);
  Module module{grid, whole_graph, spread, local, result.inserted};
  Body body(module, at(whole_graph.main), entry.name);
  local.main = body.write(inputs, outputs);
  result.inputs = borders(grid, entry, entry.inputs, inputs);
  for (std::size_t i = 0; i < lifted.size(); ++i) {
    result.inputs[result.inputs.size() - lifted.size() + i].weight = lifted[i];
    local.weights.emplace(lifted[i], whole_graph.weights.at(lifted[i]));
  }
  result.outputs = borders(grid, entry, entry.outputs, outputs);
  check(local);
  return result;
}

std::vector<std::string> describe_rule(const GraphFunction& function, const Op& op) {
  const Rule rule = rule_of(function, op);
  std::vector<std::string> lines;
  for (const Factor& factor : rule.factors)
    if (factor.extent > 1) lines.push_back(shown(factor, rule));
  if (lines.empty()) lines.push_back("whole: " + (rule.why.empty() ? "no axis passes through unchanged" : rule.why));
  return lines;
}

}  // namespace tilesim::partitioning
