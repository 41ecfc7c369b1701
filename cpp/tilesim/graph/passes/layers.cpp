// Repeated layers: consecutive sequences of operations that differ only in their weights become one function with one
// call per layer.
#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "tilesim/base/error.hpp"
#include "tilesim/graph/edit.hpp"
#include "tilesim/graph/kind.hpp"
#include "tilesim/graph/patterns/recognition.hpp"

namespace tilesim::recognition {

namespace {

constexpr std::size_t least = 12;      ///< fewest operations of a layer
constexpr std::size_t longest = 2048;  ///< most operations of a layer

/// Text of kind, attributes and types, which is equal for corresponding operations of two layers.
std::string look(const GraphFunction& function, const Op& op) {
  std::string text = edit::meaning(op);
  for (const ValueId id : op.operands) text += id == no_value ? " -" : " " + to_string(function.value(id).type);
  for (const ValueId id : op.results) text += ">" + to_string(function.value(id).type);
  for (const std::int32_t callee : op.functions) text += "@" + std::to_string(callee);
  return text;
}

/// `count` blocks of `period` operations each, from operation `start` on.
struct Repeat { std::size_t start = 0, period = 0, count = 0; };

/// Per operation: number of values before or at it that a later operation reads.
std::vector<int> crossings(const GraphFunction& function, std::size_t first) {
  const std::size_t n = function.ops.size();
  std::vector<std::size_t> last(function.values.size(), 0);
  for (std::size_t i = 0; i < n; ++i)
    for (const ValueId id : function.ops[i].operands)
      if (id != no_value) last[at(id)] = i;
  for (const ValueId id : function.outputs) last[at(id)] = n;
  std::vector<int> change(n + 2, 0);
  for (std::size_t i = first; i < n; ++i)
    for (const ValueId id : function.ops[i].results) {
      if (last[at(id)] <= i) continue;
      ++change[i];
      --change[last[at(id)]];
    }
  std::partial_sum(change.begin(), change.end(), change.begin());
  return change;
}

/// The repetition that covers the most operations. `first`: index of the first operation that is not a constant.
Repeat best_repeat(const GraphFunction& function, std::size_t first) {
  std::map<std::string, int> numbers;
  std::vector<int> looks;
  for (std::size_t i = first; i < function.ops.size(); ++i)
    looks.push_back(numbers.emplace(look(function, function.ops[i]), static_cast<int>(numbers.size())).first->second);
  const std::vector<int> crossing = crossings(function, first);
  Repeat best;
  for (std::size_t period = least; period <= std::min(longest, looks.size() / 2); ++period) {
    for (std::size_t i = 0; i + period < looks.size();) {
      std::size_t length = 0;
      while (i + length + period < looks.size() && looks[i + length] == looks[i + length + period]) ++length;
      const std::size_t count = length / period + 1;
      if (count > 1 && count * period > best.count * best.period) {
        std::size_t start = i;  // at the fewest values between blocks
        for (std::size_t shift = 1; shift <= length % period; ++shift)
          if (crossing[first + i + shift + period - 1] < crossing[first + start + period - 1]) start = i + shift;
        best = {first + start, period, count};
      }
      i += length + 1;
    }
  }
  return best;
}

/// Source of a block's operand: a result in the block, or one of its external values.
struct Wire {
  bool inside;
  std::size_t index, result;
  bool operator==(const Wire&) const = default;
};
struct Block {
  std::vector<Wire> wires;
  Values externals;
};

Block block_of(const GraphFunction& function, std::size_t start, std::size_t period) {
  Block block;
  std::map<ValueId, Wire> made;
  for (std::size_t i = 0; i < period; ++i) {
    const Op& op = function.ops[start + i];
    for (const ValueId id : op.operands) {
      if (id == no_value) continue;
      auto found = made.find(id);
      if (found == made.end()) {
        found = made.emplace(id, Wire{false, block.externals.size(), 0}).first;
        block.externals.push_back(id);
      }
      block.wires.push_back(found->second);
    }
    for (std::size_t r = 0; r < op.results.size(); ++r) made[op.results[r]] = {true, i, r};
  }
  return block;
}

/// The results of blocks, as (operation, result), that operations outside the blocks read.
std::set<std::pair<std::size_t, std::size_t>> read_outside(const GraphFunction& function, const Repeat& repeat) {
  std::map<ValueId, std::pair<std::size_t, std::pair<std::size_t, std::size_t>>> made;  // block, place
  for (std::size_t i = 0; i < repeat.count * repeat.period; ++i)
    for (std::size_t r = 0; r < function.ops[repeat.start + i].results.size(); ++r)
      made[function.ops[repeat.start + i].results[r]] = {i / repeat.period, {i % repeat.period, r}};
  std::set<std::pair<std::size_t, std::size_t>> read;
  for (const ValueId id : function.outputs)
    if (const auto found = made.find(id); found != made.end()) read.insert(found->second.second);
  for (std::size_t i = 0; i < function.ops.size(); ++i) {
    const bool within = i >= repeat.start && i < repeat.start + repeat.count * repeat.period;
    const std::size_t own = within ? (i - repeat.start) / repeat.period : repeat.count;
    for (const ValueId id : function.ops[i].operands)
      if (const auto found = made.find(id); found != made.end() && found->second.first != own)
        read.insert(found->second.second);
  }
  return read;
}

/// The first block as a function. An external value that is the same constant in all blocks moves into the function.
GraphFunction layer_of(const Reader& reader, const Repeat& repeat, const Block& first, const std::vector<bool>& common,
                       const std::string& name) {
  const GraphFunction& function = reader.function();
  GraphFunction layer;
  layer.name = name;
  std::map<ValueId, ValueId> made;
  std::set<std::string> names;
  const auto value = [&](ValueId id) {
    std::string label = function.value(id).name;
    while (!names.insert(label).second) label += "'";
    layer.values.push_back({label, function.value(id).type});
    return made[id] = static_cast<ValueId>(layer.values.size()) - 1;
  };
  for (std::size_t i = 0; i < first.externals.size(); ++i) {
    const ValueId inside = value(first.externals[i]);
    if (!common[i]) {
      layer.inputs.push_back(inside);
      continue;
    }
    Op constant = *reader.op(first.externals[i]);
    constant.results = {inside};
    layer.ops.push_back(std::move(constant));
  }
  for (std::size_t i = 0; i < repeat.period; ++i) {
    Op op = function.ops[repeat.start + i];
    for (ValueId& id : op.operands)
      if (id != no_value) id = made.at(id);
    for (ValueId& id : op.results) id = value(id);
    layer.ops.push_back(std::move(op));
  }
  for (const auto& [index, result] : read_outside(function, repeat))
    layer.outputs.push_back(made.at(function.ops[repeat.start + index].results[result]));
  return layer;
}

std::string fresh_function(const Graph& graph) {
  std::string name = "layer";
  for (int i = 1; std::ranges::find(graph.functions, name, &GraphFunction::name) != graph.functions.end(); ++i)
    name = "layer." + std::to_string(i);
  return name;
}

/// Moves one repetition of a function into a new function with calls; returns false if there is no repetition.
bool outline(Graph& graph, std::size_t number, std::vector<Change>& changes) {
  GraphFunction& function = graph.functions[number];
  const auto constants =
      std::ranges::stable_partition(function.ops, [](const Op& op) { return op.kind == Kind::constant; });
  const Repeat repeat = best_repeat(function, static_cast<std::size_t>(constants.begin() - function.ops.begin()));
  if (repeat.count < 2) return false;
  const auto in_run = [&](const Op& op) { return op.kind == Kind::batch_norm; };
  const auto begin = function.ops.begin() + static_cast<std::ptrdiff_t>(repeat.start);
  if (std::any_of(begin, begin + static_cast<std::ptrdiff_t>(repeat.period), in_run)) return false;  // folded later
  std::vector<Block> blocks;
  for (std::size_t b = 0; b < repeat.count; ++b) {
    blocks.push_back(block_of(function, repeat.start + b * repeat.period, repeat.period));
    if (blocks[b].wires != blocks[0].wires) return false;
  }
  std::string name = fresh_function(graph);
  const Reader reader(graph, function);
  std::vector<bool> common;
  for (std::size_t i = 0; i < blocks[0].externals.size(); ++i) {
    const ValueId id = blocks[0].externals[i];
    common.push_back(reader.op(id, Kind::constant) != nullptr &&
                     std::ranges::all_of(blocks, [&](const Block& block) { return block.externals[i] == id; }));
  }
  GraphFunction layer = layer_of(reader, repeat, blocks[0], common, name);
  const auto outputs = read_outside(function, repeat);
  std::vector<Op> ops(function.ops.begin(), begin);
  edit::Names names(function);
  for (std::size_t b = 0; b < repeat.count; ++b) {
    const std::size_t start = repeat.start + b * repeat.period;
    Op call;
    call.kind = Kind::call;
    call.name = names.fresh(name + "." + std::to_string(b));
    call.source = function.ops[start].source;
    call.functions = {static_cast<std::int32_t>(graph.functions.size())};
    for (std::size_t i = 0; i < common.size(); ++i)
      if (!common[i]) call.operands.push_back(blocks[b].externals[i]);
    for (const auto& [index, result] : outputs) call.results.push_back(function.ops[start + index].results[result]);
    ops.push_back(std::move(call));
  }
  ops.insert(ops.end(), begin + static_cast<std::ptrdiff_t>(repeat.count * repeat.period), function.ops.end());
  changes.push_back({"layers", function.name, name,
                     std::to_string(repeat.count) + " x " + std::to_string(repeat.period) + " operations",
                     std::to_string(repeat.count) + " calls of " + name, ops[repeat.start].source});
  function.ops = std::move(ops);
  edit::order_values(function);
  graph.functions.push_back(std::move(layer));
  return true;
}

}  // namespace

void repeated_layers(Graph& graph, std::vector<Change>& changes) {
  constexpr int rounds = 4;
  for (int round = 0; round < rounds && outline(graph, at(graph.main), changes); ++round) {
  }
}

}  // namespace tilesim::recognition
