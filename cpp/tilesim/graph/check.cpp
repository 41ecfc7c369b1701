// The structural check of a graph.
#include <algorithm>
#include <functional>
#include <set>
#include <unordered_set>

#include "tilesim/base/error.hpp"
#include "tilesim/base/interrupt.hpp"
#include "tilesim/graph/kind.hpp"
#include "tilesim/graph/kinds/rules.hpp"
#include "tilesim/graph/limits.hpp"
#include "tilesim/graph/sharding.hpp"

namespace tilesim {

namespace rules {
namespace {

const char* type_text(AttributeType type) {
  switch (type) {
    case AttributeType::flag:
      return "true or false";
    case AttributeType::integer:
      return "an integer";
    case AttributeType::number:
      return "a number";
    case AttributeType::text:
      return "a text";
    case AttributeType::integers:
      return "a list of integers";
    case AttributeType::texts:
      return "a list of texts";
    case AttributeType::dtype:
      return "a dtype";
  }
  return "";
}

bool has_type(const Attribute& value, AttributeType type) {
  switch (type) {
    case AttributeType::flag:
      return std::holds_alternative<bool>(value);
    case AttributeType::integer:
      return std::holds_alternative<std::int64_t>(value);
    case AttributeType::number:
      return std::holds_alternative<double>(value) || std::holds_alternative<std::int64_t>(value);
    case AttributeType::text:
      return std::holds_alternative<std::string>(value);
    case AttributeType::integers:
      return std::holds_alternative<std::vector<std::int64_t>>(value);
    case AttributeType::texts:
      return std::holds_alternative<std::vector<std::string>>(value);
    case AttributeType::dtype:
      return std::holds_alternative<DType>(value);
  }
  return false;
}

std::string range_text(int low, int high) {
  if (high < 0) return "at least " + std::to_string(low);
  return low == high ? std::to_string(low) : std::to_string(low) + " to " + std::to_string(high);
}

void check_count(const std::string& place, const char* what, std::size_t got, int low, int high) {
  const auto number = static_cast<int>(got);
  if (number < low || (high >= 0 && number > high))
    throw UserError({"wrong number of " + std::string(what), place, std::to_string(number), range_text(low, high), {}});
}

void check_attributes(const std::string& place, const KindInfo& kind, const Attributes& attributes) {
  std::vector<std::string> known;
  for (const AttributeInfo& wanted : kind.attributes) {
    known.push_back(wanted.name);
    const Attribute* value = attributes.find(wanted.name);
    if (!value && wanted.required)
      throw UserError({"attribute '" + wanted.name + "' is missing", place, {}, type_text(wanted.type), {}});
    if (!value) continue;
    if (!has_type(*value, wanted.type))
      throw UserError({"attribute '" + wanted.name + "' has the wrong type", place, {}, type_text(wanted.type), {}});
    if (wanted.allowed.empty()) continue;
    const std::string& text = std::get<std::string>(*value);
    if (std::ranges::find(wanted.allowed, text) == wanted.allowed.end())
      throw UserError({"attribute '" + wanted.name + "' has an unknown value", place, "'" + text + "'",
                       join(wanted.allowed), nearest(text, wanted.allowed)});
  }
  for (const auto& [name, value] : attributes.all())
    if (std::ranges::find(known, name) == known.end())
      throw UserError({"unknown attribute of kind '" + std::string(kind.name) + "'", place, "'" + name + "'",
                       known.empty() ? "none" : join(known), nearest(name, known)});
}

}  // namespace

bool holds_functions(Kind kind) {
  return kind == Kind::call || kind == Kind::fused || kind == Kind::while_loop || kind == Kind::branch ||
         kind == Kind::sort;
}

void check_form(const GraphFunction& function, const Op& op) {
  const KindInfo& kind = info(op.kind);
  const std::string place = place_of(function, op);
  check_count(place, "operands", op.operands.size(), kind.min_operands, kind.max_operands);
  if (kind.max_results >= 0) check_count(place, "results", op.results.size(), kind.min_results, kind.max_results);
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    const bool optional =
        kind.max_operands >= 0 && static_cast<int>(i) >= kind.min_operands && op.kind != Kind::elementwise;
    if (op.operands[i] == no_value && !optional)
      throw UserError({"a required operand is absent", place, "operand " + std::to_string(i), "a value", {}});
  }
  check_attributes(place, kind, op.attributes);
  if (!op.functions.empty() && !holds_functions(op.kind))
    throw UserError({"this kind takes no function", place, std::string(kind.name), {}, {}});
}

}  // namespace rules

namespace {

class Checker {
 public:
  explicit Checker(const Graph& graph)
      : graph_(graph), state_(graph.functions.size(), State::untouched), depth_(graph.functions.size(), 0) {}

  void run() {
    if (graph_.main < 0 || index(graph_.main) >= graph_.functions.size())
      throw UserError({"the graph has no main function",
                       "graph \"" + graph_.name + "\"",
                       std::to_string(graph_.main),
                       "an index of its functions",
                       {}});
    std::set<std::string> names;
    for (const GraphFunction& function : graph_.functions)
      if (!names.insert(function.name).second)
        throw UserError(
            {"two functions have the same name", "graph \"" + graph_.name + "\"", "'" + function.name + "'", {}, {}});
    check_devices();
    for (std::size_t i = 0; i < graph_.functions.size(); ++i) visit(i);
  }

 private:
  enum class State : std::uint8_t { untouched, open, done };
  static std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

  /// Visits callees first. If a function is reached while its own visit is not finished, it calls itself.
  void visit(std::size_t number) {
    if (state_[number] == State::done) return;
    const GraphFunction& function = graph_.functions[number];
    state_[number] = State::open;
    path_.push_back(function.name);
    int below = 0;
    for (const Op& op : function.ops)
      for (const std::int32_t callee : op.functions) {
        if (callee < 0 || index(callee) >= graph_.functions.size()) continue;  // reported with the operation
        if (state_[index(callee)] == State::open) recursion(function, op, graph_.functions[index(callee)].name);
        if (static_cast<int>(path_.size()) > deepest_calls) too_deep(function, op);
        visit(index(callee));
        below = std::max(below, depth_[index(callee)]);
        if (below >= deepest_calls) too_deep(function, op);
      }
    depth_[number] = below + 1;
    path_.pop_back();
    state_[number] = State::done;
    check_function(function);
  }

  /// Code that reads a graph follows its calls recursively, so the depth is limited.
  [[noreturn]] static void too_deep(const GraphFunction& function, const Op& op) {
    throw UserError({"functions call each other too deeply",
                     rules::place_of(function, op),
                     "over " + std::to_string(deepest_calls) + " levels",
                     "at most " + std::to_string(deepest_calls) + " levels",
                     {}});
  }

  [[noreturn]] void recursion(const GraphFunction& function, const Op& op, const std::string& callee) const {
    std::string chain;
    for (auto name = std::ranges::find(path_, callee); name != path_.end(); ++name) chain += *name + " -> ";
    throw UserError({"functions call each other in a cycle",
                     rules::place_of(function, op),
                     chain + callee,
                     "calls without recursion",
                     {}});
  }

  void check_devices() const {
    const std::int64_t meshed = graph_.mesh ? graph_.mesh->devices() : 1;
    if (graph_.devices < 1 || graph_.devices > most_devices || (graph_.devices > 1 && graph_.devices % meshed != 0))
      throw UserError({"the graph's number of devices does not fit its mesh",
                       "graph \"" + graph_.name + "\"",
                       std::to_string(graph_.devices),
                       meshed > 1 ? "1, or a multiple of " + std::to_string(meshed) : "at least 1",
                       {}});
  }

  void check_shardings(const GraphFunction& function, const std::string& place) const {
    for (const Value& value : function.values) {
      if (!value.sharding) continue;
      const std::string where = place + ", value \"" + value.name + "\"";
      if (!graph_.mesh) throw UserError({"a value has a sharding, but the graph no mesh", where, {}, "a mesh", {}});
      check_sharding(*value.sharding, *graph_.mesh, value.type.shape.size(), where);
    }
  }

  /// Requires that groups and pairs name devices of the graph, if the graph gives their number.
  void check_members(const GraphFunction& function, const Op& op) const {
    if (graph_.devices == 1) return;
    for (const char* name : {"groups", "pairs"}) {
      const Attribute* found = op.attributes.find(name);
      if (!found) continue;
      for (const std::int64_t device : std::get<std::vector<std::int64_t>>(*found))
        if (device >= graph_.devices)
          throw UserError({"attribute '" + std::string(name) + "' names a device that does not exist",
                           rules::place_of(function, op),
                           std::to_string(device),
                           "0 .. " + std::to_string(graph_.devices - 1),
                           {}});
    }
  }

  void check_function(const GraphFunction& function) const {
    const std::string place = "function \"" + function.name + "\"";
    check_names(function, place);
    check_shardings(function, place);
    std::vector<int> definitions(function.values.size(), 0);
    for (const ValueId id : function.inputs) define(function, id, definitions, place);
    for (const Op& op : function.ops) {
      rules::check_form(function, op);
      for (const ValueId id : op.operands) {
        if (id == no_value) continue;
        if (id < 0 || index(id) >= function.values.size() || definitions[index(id)] == 0)
          undefined_operand(function, op, id);
      }
      check_types(function, op);
      if (info(op.kind).effect == Effect::collective) check_members(function, op);
      for (const ValueId id : op.results) define(function, id, definitions, rules::place_of(function, op));
    }
    for (const ValueId id : function.outputs)
      if (id < 0 || index(id) >= function.values.size() || definitions[index(id)] == 0)
        throw UserError(
            {"an output has no producer",
             place,
             id >= 0 && index(id) < function.values.size() ? "'" + function.value(id).name + "'" : std::to_string(id),
             "an input or a result",
             {}});
    check_aliases(function, place);
  }

  static void check_names(const GraphFunction& function, const std::string& place) {
    std::unordered_set<std::string_view> values, ops;
    for (const Value& value : function.values) {
      if (worked(16); value.name.empty()) throw UserError({"A value has no name.", place, {}, "a text", {}});
      if (!values.insert(value.name).second)
        throw UserError({"two values have the same name", place, "'" + value.name + "'", {}, {}});
    }
    for (const Op& op : function.ops)
      if (!ops.insert(op.name).second)
        throw UserError({"two operations have the same name", place, "'" + op.name + "'", {}, {}});
  }

  static void define(const GraphFunction& function, ValueId id, std::vector<int>& definitions,
                     const std::string& place) {
    if (id < 0 || index(id) >= function.values.size())
      throw UserError({"a result or input must be a value of its function", place, std::to_string(id), {}, {}});
    if (definitions[index(id)]++ > 0)
      throw UserError({"a value is defined twice", place, "'" + function.value(id).name + "'", {}, {}});
  }

  /// Throws for an operand that is defined later, is part of a cycle, or is not defined.
  [[noreturn]] static void undefined_operand(const GraphFunction& function, const Op& op, ValueId id) {
    const std::string place = rules::place_of(function, op);
    if (id < 0 || index(id) >= function.values.size())
      throw UserError({"an operand must be a value of the function", place, std::to_string(id), {}, {}});
    const std::string value = "'" + function.value(id).name + "'";
    for (const Op& producer : function.ops) {
      if (std::ranges::find(producer.results, id) == producer.results.end()) continue;
      if (depends(function, producer, op))
        throw UserError({"operations form a cycle",
                         place,
                         value + ", which operation \"" + producer.name + "\" depends on the result of this one",
                         "operations without cycles",
                         {}});
      throw UserError({"a value is used before it is defined", place, value, "values of earlier operations",
                       "Move operation \"" + producer.name + "\" before this one"});
    }
    throw UserError({"a value is used but never defined", place, value, "inputs and results", {}});
  }

  /// Whether `later` needs a result of `earlier`.
  static bool depends(const GraphFunction& function, const Op& later, const Op& earlier) {
    std::set<const Op*> seen;
    std::vector<const Op*> open{&later};
    while (!open.empty()) {
      const Op* op = open.back();
      open.pop_back();
      if (op == &earlier) return true;
      if (!seen.insert(op).second) continue;
      for (const Op& producer : function.ops)
        for (const ValueId result : producer.results)
          if (std::ranges::find(op->operands, result) != op->operands.end()) open.push_back(&producer);
    }
    return false;
  }

  void check_types(const GraphFunction& function, const Op& op) const {
    const std::vector<TensorType> inferred = infer_results(graph_, function, op);
    const std::string place = rules::place_of(function, op);
    if (inferred.size() != op.results.size())
      throw UserError(
          {"wrong number of results", place, std::to_string(op.results.size()), std::to_string(inferred.size()), {}});
    for (std::size_t i = 0; i < inferred.size(); ++i) {
      const ValueId id = op.results[i];
      if (id < 0 || index(id) >= function.values.size()) continue;  // reported by define
      const Value& value = function.value(id);
      if (value.type != inferred[i])
        throw UserError({"result '" + value.name + "' has the wrong type",
                         place,
                         to_string(value.type),
                         to_string(inferred[i]),
                         {}});
    }
  }

  static void check_aliases(const GraphFunction& function, const std::string& place) {
    std::set<std::int32_t> outputs, inputs;
    for (const Alias& alias : function.aliases) {
      if (alias.output < 0 || index(alias.output) >= function.outputs.size() || alias.input < 0 ||
          index(alias.input) >= function.inputs.size())
        throw UserError({"an alias names an output or input that does not exist",
                         place,
                         std::to_string(alias.output) + " -> " + std::to_string(alias.input),
                         {},
                         {}});
      if (!outputs.insert(alias.output).second || !inputs.insert(alias.input).second)
        throw UserError({"an output or input is aliased twice",
                         place,
                         std::to_string(alias.output) + " -> " + std::to_string(alias.input),
                         {},
                         {}});
      const Value& output = function.value(function.outputs[index(alias.output)]);
      const Value& input = function.value(function.inputs[index(alias.input)]);
      if (output.type != input.type)
        throw UserError({"aliased values differ in type",
                         place,
                         "'" + output.name + "' " + to_string(output.type),
                         "'" + input.name + "' " + to_string(input.type),
                         {}});
    }
  }

  const Graph& graph_;
  std::vector<State> state_;
  std::vector<int> depth_;  ///< levels of calls, including the function
  std::vector<std::string> path_;
};

/// Limits the number of operations after inlining: a short file must not expand to billions of operations.
void check_built(const Graph& graph) {
  constexpr std::int64_t most = 1 << 20;
  std::vector<std::int64_t> built(graph.functions.size(), -1);
  const std::function<std::int64_t(std::size_t)> count = [&](std::size_t number) {
    if (built[number] >= 0) return built[number];
    std::int64_t total = 0;
    for (const Op& op : graph.functions[number].ops) {
      ++total;
      for (const std::int32_t callee : op.functions) total = std::min(total + count(at(callee)), most + 1);
    }
    if (total > most && total > static_cast<std::int64_t>(graph.functions[number].ops.size()))
      throw UserError({"the functions that are called have too many operations, each call counted",
                       "function \"" + graph.functions[number].name + "\"",
                       "over " + std::to_string(most),
                       "at most " + std::to_string(most),
                       {}});
    return built[number] = total;
  };
  for (std::size_t number = 0; number < graph.functions.size(); ++number) count(number);
}

}  // namespace

void check(const Graph& graph) {
  Checker(graph).run();
  check_built(graph);
}

}  // namespace tilesim
