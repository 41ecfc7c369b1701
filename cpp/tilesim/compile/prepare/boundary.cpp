#include "tilesim/compile/prepare/boundary.hpp"

#include <set>

namespace tilesim::lower {

namespace {

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

/// By output, the state that it is an update of and replaces: it lies in the same bytes, so that only the written
/// part moves. Not where anything else reads the state.
std::map<ValueId, std::string> updated_states(const GraphFunction& function) {
  std::map<ValueId, std::string> states;
  if (function.aliases.empty()) return states;
  std::map<ValueId, std::int64_t> readers;
  std::map<ValueId, const Op*> makers;
  for (ValueId output : function.outputs) ++readers[output];
  for (const Op& op : function.ops) {
    for (ValueId operand : op.operands) ++readers[operand];
    if (!op.results.empty()) makers[op.results[0]] = &op;
  }
  for (const Alias& alias : function.aliases) {
    const ValueId output = function.outputs[static_cast<std::size_t>(alias.output)];
    const ValueId input = function.inputs[static_cast<std::size_t>(alias.input)];
    const auto made = makers.find(output);
    if (made == makers.end() || readers[input] != 1) continue;
    const Op& op = *made->second;
    if ((op.kind == Kind::dynamic_update || op.kind == Kind::scatter) && op.operands[0] == input)
      states.emplace(output, function.value(input).name);
  }
  return states;
}

}  // namespace

std::map<ValueId, std::string> declare_boundary(const GraphFunction& function, program::Program& program) {
  std::map<ValueId, std::string> boundary;
  std::set<std::size_t> states;
  for (const Alias& alias : function.aliases) states.insert(static_cast<std::size_t>(alias.input));
  const std::map<ValueId, std::string> updated = updated_states(function);
  for (std::size_t i = 0; i < function.inputs.size(); ++i) {
    const Value& value = function.value(function.inputs[i]);
    program::Tensor& tensor =
        declare(program, value.name, value.type, states.count(i) ? program::Role::state : program::Role::input);
    if (is_integer(value.type.dtype) || value.type.dtype == DType::boolean) tensor.typical = {{0}, "zeros"};
    boundary[function.inputs[i]] = value.name;
  }
  for (ValueId output : function.outputs) {
    if (boundary.count(output)) continue;  // passed through, or listed twice
    const Value& value = function.value(output);
    const auto state = updated.find(output);
    declare(program, value.name, value.type, program::Role::output,
            state == updated.end() ? std::string{} : state->second);
    boundary[output] = value.name;
  }
  return boundary;
}

}  // namespace tilesim::lower
