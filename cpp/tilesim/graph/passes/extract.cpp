// Extracts part of a graph as a separate graph.
#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/base/interrupt.hpp"
#include "tilesim/graph/edit.hpp"
#include "tilesim/graph/passes.hpp"
#include "tilesim/graph/passes/sparse_plan.hpp"
#include "tilesim/graph/passes/zero_tiles.hpp"

namespace tilesim {

namespace {

/// Copies the weights that the part's operations name, without copying elements.
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

/// Copies the functions that the entry calls; other functions become empty and keep their numbers.
void take_functions(const Graph& from, Graph& to) {
  std::vector<bool> seen(from.functions.size(), false);
  std::vector<std::int32_t> open{to.main};
  while (!open.empty()) {
    const std::int32_t f = open.back();
    open.pop_back();
    if (seen[at(f)]) continue;
    seen[at(f)] = true;
    if (f != to.main) to.functions[at(f)] = from.functions[at(f)];
    for (const Op& op : to.functions[at(f)].ops) open.insert(open.end(), op.functions.begin(), op.functions.end());
  }
}

std::unordered_map<ValueId, std::int32_t> places_of(const std::vector<ValueId>& border) {
  std::unordered_map<ValueId, std::int32_t> places;
  for (std::size_t i = 0; i < border.size(); ++i) places.emplace(border[i], static_cast<std::int32_t>(i));
  return places;
}

void count_reads(const std::vector<ValueId>& read, std::unordered_map<ValueId, std::int64_t>& counts) {
  for (const ValueId id : read) ++counts[id];
}

/// Keeps the values that the part's operations name, in the order of the complete function.
void take_values(const GraphFunction& whole, GraphFunction& part) {
  std::vector<ValueId> used(part.inputs);
  used.insert(used.end(), part.outputs.begin(), part.outputs.end());
  for (const Op& op : part.ops) {
    used.insert(used.end(), op.operands.begin(), op.operands.end());
    used.insert(used.end(), op.results.begin(), op.results.end());
  }
  std::ranges::sort(used);
  used.erase(std::unique(used.begin(), used.end()), used.end());
  std::unordered_map<ValueId, ValueId> number{{no_value, no_value}};
  for (const ValueId id : used) {
    if (id == no_value) continue;
    number.emplace(id, static_cast<ValueId>(part.values.size()));
    part.values.push_back(whole.value(id));
  }
  const auto renumber = [&](std::vector<ValueId>& ids) {
    for (ValueId& id : ids) id = number.at(id);
  };
  renumber(part.inputs), renumber(part.outputs);
  for (Op& op : part.ops) renumber(op.operands), renumber(op.results);
}

}  // namespace

GraphParts::GraphParts(const Graph& graph) : graph_(graph) {
  const GraphFunction& whole = graph.entry();
  for (std::size_t i = 0; i < whole.values.size(); ++i) values_[whole.values[i].name] = static_cast<ValueId>(i);
  for (std::size_t i = 0; i < whole.aliases.size(); ++i) aliases_.emplace(whole.inputs[at(whole.aliases[i].input)], i);
  count_reads(whole.outputs, reads_);
  for (std::size_t i = 0; i < whole.ops.size(); ++i) {
    worked(8);
    operations_[whole.ops[i].name] = i;
    count_reads(whole.ops[i].operands, reads_);
  }
}

ValueId GraphParts::value_named(const std::string& name) const {
  if (const auto found = values_.find(name); found != values_.end()) return found->second;
  throw UserError({"the value does not exist", "function \"" + graph_.entry().name + "\"", "'" + name + "'", {}, {}});
}

std::vector<Op> GraphParts::operations_named(const std::vector<std::string>& names) const {
  const GraphFunction& whole = graph_.entry();
  std::vector<std::size_t> places;
  for (const std::string& name : names) {
    const auto found = operations_.find(name);
    if (found == operations_.end())
      throw UserError({"the operation does not exist", "function \"" + whole.name + "\"", "'" + name + "'", {}, {}});
    places.push_back(found->second);
  }
  std::ranges::sort(places);
  places.erase(std::unique(places.begin(), places.end()), places.end());
  std::vector<Op> found;
  for (const std::size_t place : places) worked(16), found.push_back(whole.ops[place]);
  return found;
}

void GraphParts::keep_aliases(GraphFunction& entry) const {
  const GraphFunction& whole = graph_.entry();
  std::unordered_map<ValueId, std::int64_t> inside;
  for (const Op& op : entry.ops) count_reads(op.operands, inside);
  const auto read_outside = [&](ValueId id) {
    const auto all = reads_.find(id);
    const auto own = inside.find(id);
    return (all == reads_.end() ? 0 : all->second) > (own == inside.end() ? 0 : own->second);
  };
  const auto given = places_of(entry.inputs), back = places_of(entry.outputs);
  std::vector<std::size_t> near;
  for (const auto& [id, place] : given)
    for (auto [one, end] = aliases_.equal_range(id); one != end; ++one) near.push_back(one->second);
  std::ranges::sort(near);
  for (const std::size_t number : near) {
    const Alias& alias = whole.aliases[number];
    const ValueId state = whole.inputs[at(alias.input)];
    if (const auto out = back.find(whole.outputs[at(alias.output)]); out != back.end() && !read_outside(state))
      entry.aliases.push_back({out->second, given.at(state)});
  }
}

Graph GraphParts::extract(const std::vector<std::string>& operations, const std::vector<std::string>& inputs,
                          const std::vector<std::string>& outputs) const {
  const GraphFunction& whole = graph_.entry();
  Graph part;
  part.name = graph_.name;
  part.main = graph_.main;
  part.mesh = graph_.mesh;
  part.devices = graph_.devices;
  part.functions.resize(graph_.functions.size());
  GraphFunction& entry = part.entry();
  entry.name = whole.name;
  entry.ops = operations_named(operations);
  for (const std::string& name : inputs) entry.inputs.push_back(value_named(name));
  for (const std::string& name : outputs) entry.outputs.push_back(value_named(name));
  if (!whole.aliases.empty()) keep_aliases(entry);
  take_values(whole, entry);
  take_functions(graph_, part);
  take_weights(graph_, part);
  remove_dead_code(part);
  return part;
}

Graph extract(const Graph& graph, const std::vector<std::string>& operations, const std::vector<std::string>& inputs,
              const std::vector<std::string>& outputs) {
  return GraphParts(graph).extract(operations, inputs, outputs);
}

}  // namespace tilesim
