#include "tilesim/graph/edit.hpp"

#include <algorithm>
#include <bit>

#include "tilesim/base/index.hpp"
#include "tilesim/base/json/json.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/graph/annotations.hpp"
#include "tilesim/graph/kind.hpp"
#include "tilesim/graph/sharding.hpp"

namespace tilesim::edit {

namespace {

/// Removes payloads of a sort whose results are unused.
void drop_dead_payloads(Op& op, const std::vector<bool>& live) {
  if (op.kind != Kind::sort || !op.functions.empty()) return;
  const auto keys = static_cast<std::ptrdiff_t>(op.attributes.integer("keys", 1));
  for (std::ptrdiff_t i = std::ssize(op.results); i-- > keys;)
    if (!live[at(op.results[at(i)])])
      op.operands.erase(op.operands.begin() + i), op.results.erase(op.results.begin() + i);
}

}  // namespace

int sweep_dead(GraphFunction& function) {
  std::vector<bool> live(function.values.size(), false);
  for (const ValueId id : function.outputs) live[at(id)] = true;
  std::vector<bool> keep(function.ops.size(), false);
  for (std::size_t i = function.ops.size(); i-- > 0;) {
    Op& op = function.ops[i];
    keep[i] = info(op.kind).effect != Effect::pure ||
              std::ranges::any_of(op.results, [&](ValueId id) { return live[at(id)]; });
    if (!keep[i]) continue;
    drop_dead_payloads(op, live);
    for (const ValueId id : op.operands)
      if (id != no_value) live[at(id)] = true;
  }
  std::vector<Op> ops;
  for (std::size_t i = 0; i < keep.size(); ++i)
    if (keep[i]) ops.push_back(std::move(function.ops[i]));
  const auto removed = static_cast<int>(function.ops.size() - ops.size());
  function.ops = std::move(ops);
  return removed;
}

void order_values(GraphFunction& function) {
  std::vector<ValueId> renumbered(function.values.size(), no_value);
  std::vector<Value> values;
  const auto take = [&](ValueId id) {
    if (id == no_value || renumbered[at(id)] != no_value) return;
    renumbered[at(id)] = static_cast<ValueId>(values.size());
    values.push_back(std::move(function.values[at(id)]));
  };
  std::ranges::for_each(function.inputs, take);
  for (const Op& op : function.ops) std::ranges::for_each(op.results, take);
  for (const Op& op : function.ops) std::ranges::for_each(op.operands, take);  // within a pass, before they are defined
  std::ranges::for_each(function.outputs, take);
  function.values = std::move(values);
  const auto renumber = [&](ValueId& id) {
    if (id != no_value) id = renumbered[at(id)];
  };
  std::ranges::for_each(function.inputs, renumber);
  std::ranges::for_each(function.outputs, renumber);
  for (Op& op : function.ops) {
    std::ranges::for_each(op.operands, renumber);
    std::ranges::for_each(op.results, renumber);
  }
}

std::vector<int> producers(const GraphFunction& function) {
  std::vector<int> result(function.values.size(), -1);
  for (std::size_t i = 0; i < function.ops.size(); ++i)
    for (const ValueId id : function.ops[i].results) result[at(id)] = static_cast<int>(i);
  return result;
}

std::vector<int> use_counts(const GraphFunction& function) {
  std::vector<int> result(function.values.size(), 0);
  for (const Op& op : function.ops)
    for (const ValueId id : op.operands)
      if (id != no_value) ++result[at(id)];
  for (const ValueId id : function.outputs) ++result[at(id)];
  return result;
}

Redirects::Redirects(const GraphFunction& function)
    : inputs_(function.inputs.begin(), function.inputs.end()),
      outputs_(function.outputs.begin(), function.outputs.end()) {}

bool share_sharding(GraphFunction& function, ValueId from, ValueId to) {
  const std::shared_ptr<const Sharding>& own = function.values[at(from)].sharding;
  std::shared_ptr<const Sharding>& kept = function.values[at(to)].sharding;
  if (!own) return true;
  if (!kept) kept = own;
  return *kept == *own;
}

bool Redirects::add(GraphFunction& function, ValueId from, ValueId to) {
  if (outputs_.count(from)) {
    if (inputs_.count(to) || outputs_.count(to)) return false;
    std::swap(function.values[at(from)].name, function.values[at(to)].name);
    outputs_.erase(from);
    outputs_.insert(to);
  }
  meant_[from] = to;
  return true;
}

ValueId Redirects::replacement(ValueId value) {
  ValueId last = value;
  for (auto next = meant_.find(last); next != meant_.end(); next = meant_.find(last)) last = next->second;
  while (value != last) {  // shortens the chain for later calls
    ValueId& next = meant_[value];
    value = next;
    next = last;
  }
  return last;
}

void Redirects::rewrite(std::vector<ValueId>& values) {
  if (meant_.empty()) return;
  for (ValueId& id : values)
    if (id != no_value) id = replacement(id);
}

Names::Names(const GraphFunction& function) {
  taken_.reserve(function.values.size() + function.ops.size());
  for (const Value& value : function.values) take(value.name);
  for (const Op& op : function.ops) take(op.name);
}

Names::Names(const std::map<std::string, Weight>& weights) {
  for (const auto& [name, weight] : weights) take(name);
}

std::string Names::fresh(const std::string& stem) {
  if (!taken_.count(stem)) return stem;
  int& number = next_.try_emplace(stem, 1).first->second;
  std::string name = stem + "." + std::to_string(number);
  while (taken_.count(name)) name = stem + "." + std::to_string(++number);
  return name;
}

std::string Names::taken(const std::string& stem) {
  std::string name = fresh(stem);
  take(name);
  return name;
}

std::string fresh_weight(const Graph& graph, const std::string& stem) {
  std::string name = stem;
  for (int i = 1; graph.weights.count(name); ++i) name = stem + "." + std::to_string(i);
  return name;
}

const Weight* weight_of(const Graph& graph, const GraphFunction& function, const std::vector<int>& producer,
                        ValueId value) {
  if (value == no_value || producer[at(value)] < 0) return nullptr;
  const Op& op = function.ops[at(producer[at(value)])];
  if (op.kind != Kind::constant) return nullptr;
  const auto found = graph.weights.find(op.attributes.text("reference"));
  return found == graph.weights.end() ? nullptr : &found->second;
}

std::optional<double> known_number(const Graph& graph, const GraphFunction& function, const std::vector<int>& producer,
                                   ValueId value) {
  const Weight* weight = weight_of(graph, function, producer, value);
  if (!weight || weight->source != Weight::Source::data || weight->data.size() != 1) return std::nullopt;
  if (weight->trainable) return std::nullopt;  // training may change a parameter
  return weight->data.at(0);
}

namespace {

struct AttributeText {
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(std::int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return std::to_string(std::bit_cast<std::int64_t>(value)); }
  std::string operator()(const std::string& value) const { return Json(value).dump(); }
  std::string operator()(const std::vector<std::int64_t>& values) const { return to_string(values); }
  std::string operator()(const std::vector<std::string>& values) const {
    std::string text = "[";
    for (const std::string& value : values) text += Json(value).dump() + ",";
    return text + "]";
  }
  std::string operator()(DType value) const { return "dtype " + std::string(name(value)); }
};

}  // namespace

std::string meaning(const Op& op) {
  std::string text(info(op.kind).name);
  for (const auto& [key, value] : op.attributes.all()) text += ";" + key + "=" + std::visit(AttributeText{}, value);
  return text;
}

Op constant(GraphFunction& function, Names& names, const std::string& name, const TensorType& type) {
  Op op;
  op.kind = Kind::constant;
  op.name = names.taken(name);
  op.attributes.set("reference", name);
  function.values.push_back({op.name, type});
  op.results = {static_cast<ValueId>(function.values.size()) - 1};
  return op;
}

}  // namespace tilesim::edit
