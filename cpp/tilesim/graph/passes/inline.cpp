// Inlines calls: replaces each call by the operations of its callee.
#include <algorithm>

#include "tilesim/base/index.hpp"
#include "tilesim/graph/edit.hpp"
#include "tilesim/graph/passes.hpp"

namespace tilesim {

namespace {

/// Appends the body of `callee` in place of `call`. Calls inside the body are already inlined.
void append_body(GraphFunction& function, edit::Names& names, const GraphFunction& callee, const Op& call) {
  std::vector<ValueId> renumbered(callee.values.size(), no_value);
  const auto annotate = [&](ValueId outer, ValueId inner) {
    std::shared_ptr<const Sharding>& sharding = function.values[at(outer)].sharding;
    if (!sharding) sharding = callee.value(inner).sharding;
  };
  for (std::size_t i = 0; i < callee.inputs.size(); ++i) {
    renumbered[at(callee.inputs[i])] = call.operands[i];
    annotate(call.operands[i], callee.inputs[i]);
  }
  std::vector<bool> delivered(callee.outputs.size(), false);
  for (std::size_t i = 0; i < callee.outputs.size(); ++i) {
    if (renumbered[at(callee.outputs[i])] != no_value) continue;  // an input, or already delivered
    renumbered[at(callee.outputs[i])] = call.results[i];
    annotate(call.results[i], callee.outputs[i]);
    delivered[i] = true;
  }
  for (const Op& op : callee.ops) {
    Op copy = op;
    copy.name = names.fresh(call.name + "." + op.name);
    for (ValueId& id : copy.operands)
      if (id != no_value) id = renumbered[at(id)];
    for (ValueId& id : copy.results) {
      if (renumbered[at(id)] == no_value) {
        function.values.push_back(
            {names.taken(call.name + "." + callee.value(id).name), callee.value(id).type, callee.value(id).sharding});
        renumbered[at(id)] = static_cast<ValueId>(function.values.size()) - 1;
      }
      id = renumbered[at(id)];
    }
    names.take(copy.name);
    function.ops.push_back(std::move(copy));
  }
  for (std::size_t i = 0; i < callee.outputs.size(); ++i) {
    if (delivered[i]) continue;
    Op copy;
    copy.kind = Kind::copy;
    copy.name = names.taken(call.name + ".copy");
    copy.operands = {renumbered[at(callee.outputs[i])]};
    copy.results = {call.results[i]};
    function.ops.push_back(std::move(copy));
  }
}

/// Inlines the calls of a function, callees first. Visits each function once.
int inline_function(Graph& graph, std::size_t number, std::vector<bool>& done) {
  if (done[number]) return 0;
  done[number] = true;
  int inlined = 0;
  edit::Names names(graph.functions[number]);
  std::vector<Op> ops = std::move(graph.functions[number].ops);
  graph.functions[number].ops.clear();
  for (Op& op : ops) {
    for (const std::int32_t callee : op.functions) inlined += inline_function(graph, at(callee), done);
    GraphFunction& function = graph.functions[number];
    if (op.kind != Kind::call) {
      function.ops.push_back(std::move(op));
      continue;
    }
    append_body(function, names, graph.functions[at(op.functions[0])], op);
    ++inlined;
  }
  return inlined;
}

}  // namespace

int inline_calls(Graph& graph) {
  std::vector<bool> done(graph.functions.size(), false);
  int inlined = 0;
  for (std::size_t f = 0; f < graph.functions.size(); ++f) inlined += inline_function(graph, f, done);
  return inlined;
}

}  // namespace tilesim
