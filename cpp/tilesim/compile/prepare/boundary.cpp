#include "tilesim/compile/prepare/boundary.hpp"

#include <algorithm>
#include <set>

#include "tilesim/compile/plan/in_place.hpp"

namespace tilesim::lower {

namespace {

constexpr const char* called_suffix = ".called";  ///< suffix of renamed functions; a number may follow

program::Tensor& declare(program::Program& program, const std::string& name, const TensorType& type, program::Role role,
                         const std::string& alias = {}) {
  program::Tensor tensor;
  tensor.name = name;
  tensor.dtype = type.dtype;
  for (std::int64_t extent : type.shape) tensor.shape.push_back(Expr(extent));
  tensor.role = role;
  tensor.alias_of = alias;
  return program.tensors.emplace_back(std::move(tensor));
}

/// By output: the state that the output updates in place, directly or through other values.
std::map<ValueId, std::string> updated_states(const GraphFunction& function) {
  std::map<ValueId, std::string> states;
  if (function.aliases.empty()) return states;
  std::map<ValueId, const Op*> makers;
  for (const Op& op : function.ops)
    for (const ValueId result : op.results) makers[result] = &op;
  for (const Alias& alias : function.aliases) {
    const ValueId output = function.outputs[static_cast<std::size_t>(alias.output)];
    const ValueId state = function.inputs[static_cast<std::size_t>(alias.input)];
    ValueId value = output;
    for (auto made = makers.find(value); value != state && made != makers.end(); made = makers.find(value))
      value = old_value(*made->second, value);
    if (value == state && output != state) states.emplace(output, function.value(state).name);
  }
  return states;
}

}  // namespace

std::map<ValueId, std::string> declare_boundary(const GraphFunction& function, program::Program& program) {
  std::map<ValueId, std::string> boundary;
  std::set<std::size_t> states;
  for (const Alias& alias : function.aliases) states.insert(static_cast<std::size_t>(alias.input));
  for (std::size_t i = 0; i < function.inputs.size(); ++i)  // an input that is also an output is an unchanged state
    if (std::ranges::count(function.outputs, function.inputs[i]) > 0) states.insert(i);
  const std::map<ValueId, std::string> updated = updated_states(function);
  for (std::size_t i = 0; i < function.inputs.size(); ++i) {
    const Value& value = function.value(function.inputs[i]);
    program::Tensor& tensor =
        declare(program, value.name, value.type, states.count(i) ? program::Role::state : program::Role::input);
    if (is_integer(value.type.dtype) || value.type.dtype == DType::boolean) tensor.typical = {{0}, "zeros"};
    boundary[function.inputs[i]] = value.name;
  }
  for (ValueId output : function.outputs) {
    if (boundary.count(output)) continue;  // an input, or an output listed twice
    const Value& value = function.value(output);
    const auto state = updated.find(output);
    declare(program, value.name, value.type, program::Role::output,
            state == updated.end() ? std::string{} : state->second);
    boundary[output] = value.name;
  }
  return boundary;
}

void separate_formals(Graph& graph) {
  std::set<std::string> taken;
  for (const Value& value : graph.entry().values) taken.insert(value.name);
  for (std::size_t i = 0; i < graph.functions.size(); ++i) {
    GraphFunction& function = graph.functions[i];
    if (static_cast<std::int32_t>(i) == graph.main) continue;
    const std::string stem = function.name;
    const auto clashes = [&](const Value& value) { return taken.count(function.name + "." + value.name) > 0; };
    for (int number = 1; std::ranges::any_of(function.values, clashes); ++number)
      function.name = stem + called_suffix + (number > 1 ? std::to_string(number) : "");
    for (const Value& value : function.values) taken.insert(function.name + "." + value.name);
  }
}

const GraphFunction* called(const Graph& graph, const std::string& name) {
  const std::string stem = name.substr(0, name.find_last_not_of("0123456789") + 1);
  const GraphFunction* found = nullptr;
  for (const GraphFunction& function : graph.functions) {
    if (function.name == name) return &function;
    if (function.name + called_suffix == stem) found = &function;
  }
  return found;
}

}  // namespace tilesim::lower
