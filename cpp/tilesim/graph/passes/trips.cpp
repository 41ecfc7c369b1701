// Gives data-dependent loops a constant trip count: a counter ends them, and the original condition is still computed.
#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/graph/builder.hpp"
#include "tilesim/graph/edit.hpp"
#include "tilesim/graph/passes.hpp"

namespace tilesim {

namespace {

const TensorType counter_type{DType::i32, {}}, flag_type{DType::boolean, {}};

ValueId add_value(GraphFunction& function, edit::Names& names, const std::string& stem, const TensorType& type) {
  function.values.push_back({names.taken(stem), type});
  return static_cast<ValueId>(function.values.size()) - 1;
}

ValueId add_input(GraphFunction& function, edit::Names& names, const std::string& stem, const TensorType& type) {
  function.inputs.push_back(add_value(function, names, stem, type));
  return function.inputs.back();
}

/// Appends the operations of `callee`, applied to `operands`, to `ops`. Returns the outputs.
std::vector<ValueId> spliced(GraphFunction& function, edit::Names& names, std::vector<Op>& ops,
                             const GraphFunction& callee, const std::vector<ValueId>& operands,
                             const std::string& stem) {
  std::vector<ValueId> renumbered(callee.values.size(), no_value);
  for (std::size_t i = 0; i < callee.inputs.size(); ++i) renumbered[at(callee.inputs[i])] = operands[i];
  for (const Op& op : callee.ops) {
    Op copy = op;
    copy.name = stem + "." + op.name;
    for (ValueId& id : copy.operands)
      if (id != no_value) id = renumbered[at(id)];
    for (ValueId& id : copy.results)
      id = renumbered[at(id)] = add_value(function, names, stem + "." + callee.value(id).name, callee.value(id).type);
    names.take(copy.name);
    ops.push_back(std::move(copy));
  }
  std::vector<ValueId> outputs;
  for (const ValueId output : callee.outputs) outputs.push_back(renumbered[at(output)]);
  return outputs;
}

ValueId applied(GraphFunction& function, edit::Names& names, std::vector<Op>& ops, const char* name,
                std::vector<ValueId> operands, const TensorType& type) {
  Op op;
  op.kind = Kind::elementwise;
  op.name = names.fresh(name);
  op.attributes.set("function", std::string(name));
  op.operands = std::move(operands);
  op.results = {add_value(function, names, op.name, type)};
  ops.push_back(op);
  return op.results[0];
}

ValueId number(Graph& graph, GraphFunction& function, edit::Names& names, std::vector<Op>& ops, std::int64_t value) {
  const std::string name = "loop." + std::to_string(value);
  if (!graph.weights.count(name)) {
    Weight weight;
    weight.type = counter_type;
    weight.source = Weight::Source::data;
    weight.data = Array(DType::i32, {});
    weight.data.as<std::int32_t>()[0] = static_cast<std::int32_t>(value);
    weight.trainable = false;
    graph.weights.emplace(name, std::move(weight));
  }
  ops.push_back(edit::constant(function, names, name, counter_type));
  return ops.back().results[0];
}

/// Selects a loop's state after a trip: the new state, or the old one if the loop has already ended.
ValueId kept(GraphFunction& function, edit::Names& names, std::vector<Op>& ops, ValueId more, ValueId next,
             ValueId before) {
  if (next == before) return before;
  return applied(function, names, ops, "select", {more, next, before}, function.value(before).type);
}

GraphFunction counted_body(Graph& graph, const GraphFunction& condition, const GraphFunction& body, bool masked) {
  GraphFunction result;
  result.name = body.name + ".counted";
  edit::Names names(result);
  const ValueId counter = add_input(result, names, "trip", counter_type),
                more = add_input(result, names, "more", flag_type);
  std::vector<ValueId> state;
  for (const ValueId input : body.inputs)
    state.push_back(add_input(result, names, body.value(input).name, body.value(input).type));
  std::vector<ValueId> next = spliced(result, names, result.ops, body, state, "body");
  for (std::size_t i = 0; masked && i < next.size(); ++i)
    next[i] = kept(result, names, result.ops, more, next[i], state[i]);
  ValueId goes_on = spliced(result, names, result.ops, condition, next, "condition")[0];
  if (masked) goes_on = applied(result, names, result.ops, "logical_and", {more, goes_on}, flag_type);
  const ValueId one = number(graph, result, names, result.ops, 1);
  result.outputs = {applied(result, names, result.ops, "add", {counter, one}, counter_type), goes_on};
  result.outputs.insert(result.outputs.end(), next.begin(), next.end());
  return result;
}

GraphFunction counted_condition(Graph& graph, const GraphFunction& body, std::int64_t trips) {
  GraphFunction result;
  result.name = body.name + ".until_" + std::to_string(trips);
  edit::Names names(result);
  for (const ValueId input : body.inputs) add_input(result, names, body.value(input).name, body.value(input).type);
  const ValueId limit = number(graph, result, names, result.ops, trips);
  result.outputs = {applied(result, names, result.ops, "less", {result.inputs[0], limit}, flag_type)};
  return result;
}

void count(Graph& graph, std::size_t number_of_function, const Trips& trips) {
  GraphFunction& function = graph.functions[number_of_function];
  const auto found = std::ranges::find_if(function.ops, [&](const Op& op) { return op.name == trips.operation; });
  if (found == function.ops.end() || found->kind != Kind::while_loop)
    throw UserError(
        {"no loop of this name", "function \"" + function.name + "\"", "'" + trips.operation + "'", {}, {}});
  const auto place = found - function.ops.begin();
  Op loop = *found;
  const GraphFunction condition = graph.functions[at(loop.functions[0])],
                      body = counted_body(graph, condition, graph.functions[at(loop.functions[1])], trips.masked);
  std::vector<Op> before;
  edit::Names names(function);
  const ValueId start = number(graph, function, names, before, 0);
  const ValueId more = spliced(function, names, before, condition, loop.operands, loop.name + ".condition")[0];
  loop.operands.insert(loop.operands.begin(), {start, more});
  loop.results.insert(loop.results.begin(), {add_value(function, names, loop.name + ".trips", counter_type),
                                             add_value(function, names, loop.name + ".more", flag_type)});
  loop.attributes.set("trips", trips.count);
  loop.functions = {static_cast<std::int32_t>(graph.functions.size()),
                    static_cast<std::int32_t>(graph.functions.size()) + 1};
  function.ops[at(place)] = loop;
  function.ops.insert(function.ops.begin() + place, before.begin(), before.end());
  GraphFunction until = counted_condition(graph, body, trips.count);
  for (GraphFunction made : {until, body}) {
    const std::string stem = made.name;
    const auto taken = [&](const GraphFunction& other) { return other.name == made.name; };
    for (int i = 1; std::ranges::any_of(graph.functions, taken); ++i) made.name = stem + "." + std::to_string(i);
    graph.functions.push_back(std::move(made));
  }
}

/// Visits inner loops first, because the operation that contains a loop copies it.
void visit(Graph& graph, std::size_t number, const std::vector<Trips>& trips, std::vector<bool>& seen) {
  if (seen[number]) return;
  seen[number] = true;
  std::vector<std::int32_t> callees;
  for (const Op& op : graph.functions[number].ops)
    callees.insert(callees.end(), op.functions.begin(), op.functions.end());
  for (const std::int32_t callee : callees) visit(graph, at(callee), trips, seen);
  for (const Trips& one : trips)
    if (one.function == graph.functions[number].name) count(graph, number, one);
}

}  // namespace

void count_trips(Graph& graph, const std::vector<Trips>& trips) {
  std::vector<bool> seen(graph.functions.size(), false);
  visit(graph, at(graph.main), trips, seen);
  remove_dead_code(graph);
  check(graph);
}

}  // namespace tilesim
