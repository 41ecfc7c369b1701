// Part of a graph as a graph of its own.
#include <algorithm>
#include <map>
#include <set>

#include "tilesim/base/error.hpp"
#include "tilesim/graph/edit.hpp"
#include "tilesim/graph/passes.hpp"
#include "tilesim/graph/passes/sparse_plan.hpp"
#include "tilesim/graph/passes/zero_tiles.hpp"

namespace tilesim {

namespace {

ValueId value_named(const GraphFunction& function, const std::map<std::string, ValueId>& values,
                    const std::string& name) {
  if (const auto found = values.find(name); found != values.end()) return found->second;
  throw UserError({"the value does not exist", "function \"" + function.name + "\"", "'" + name + "'", {}, {}});
}

/// The border's position of an old position, or -1.
std::int32_t place_of(const std::vector<ValueId>& border, ValueId value) {
  const auto found = std::ranges::find(border, value);
  return found == border.end() ? -1 : static_cast<std::int32_t>(found - border.begin());
}

/// Weights that the graph's operations name, without their elements' being copied.
void take_weights(const Graph& from, Graph& to) {
  for (const GraphFunction& function : to.functions)
    for (const Op& op : function.ops) {
      const auto take = [&](const std::string& name) {
        if (const auto found = from.weights.find(name); found != from.weights.end()) to.weights.insert(*found);
      };
      if (op.kind == Kind::constant) take(op.attributes.text("reference"));
      const ZeroTiles tiles = zero_tiles_of(op);
      take(tiles.before), take(tiles.beside);
      for (const std::string& name : sparse_weights(op)) take(name);
    }
}

}  // namespace

Graph extract(const Graph& graph, const std::vector<std::string>& operations, const std::vector<std::string>& inputs,
              const std::vector<std::string>& outputs) {
  const GraphFunction& whole = graph.entry();
  std::set<std::string> kept(operations.begin(), operations.end());
  std::map<std::string, ValueId> values;
  for (std::size_t i = 0; i < whole.values.size(); ++i) values[whole.values[i].name] = static_cast<ValueId>(i);
  Graph part;
  part.name = graph.name;
  part.main = graph.main;
  part.mesh = graph.mesh;
  part.devices = graph.devices;
  for (std::size_t f = 0; f < graph.functions.size(); ++f)
    part.functions.push_back(f == static_cast<std::size_t>(graph.main) ? GraphFunction{} : graph.functions[f]);
  GraphFunction& entry = part.entry();
  entry.name = whole.name;
  entry.values = whole.values;
  std::set<ValueId> read_outside(whole.outputs.begin(), whole.outputs.end());
  for (const Op& op : whole.ops) {
    if (kept.erase(op.name))
      entry.ops.push_back(op);
    else
      read_outside.insert(op.operands.begin(), op.operands.end());
  }
  if (!kept.empty())
    throw UserError(
        {"the operation does not exist", "function \"" + whole.name + "\"", "'" + *kept.begin() + "'", {}, {}});
  for (const std::string& name : inputs) entry.inputs.push_back(value_named(whole, values, name));
  for (const std::string& name : outputs) entry.outputs.push_back(value_named(whole, values, name));
  for (const Alias& alias : whole.aliases) {
    const ValueId state = whole.inputs[static_cast<std::size_t>(alias.input)];
    const Alias moved{place_of(entry.outputs, whole.outputs[static_cast<std::size_t>(alias.output)]),
                      place_of(entry.inputs, state)};
    if (moved.output >= 0 && moved.input >= 0 && !read_outside.count(state)) entry.aliases.push_back(moved);
  }
  edit::drop_unused_values(entry);
  take_weights(graph, part);
  remove_dead_code(part);
  return part;
}

}  // namespace tilesim
