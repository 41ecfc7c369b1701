// while and branch: operations that decide which function runs, or how often.
#include "tilesim/graph/kinds/rules.hpp"

namespace tilesim::rules {
namespace {

const GraphFunction& function_at(const Op& op, std::size_t index, const Graph& graph) {
  if (op.functions[index] < 0 || at(op.functions[index]) >= graph.functions.size())
    refuse("a function of the operation does not exist", std::to_string(op.functions[index]));
  return graph.functions[at(op.functions[index])];
}

void check_inputs(const GraphFunction& callee, Types operands) {
  const std::string place = " of function \"" + callee.name + "\"";
  if (operands.size() != callee.inputs.size())
    refuse("wrong number of operands for the inputs" + place, std::to_string(operands.size()),
           std::to_string(callee.inputs.size()));
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Value& input = callee.value(callee.inputs[i]);
    if (!operands[i] || *operands[i] != input.type)
      refuse("wrong operand for input \"" + input.name + "\"" + place, operands[i] ? to_string(*operands[i]) : "none",
             to_string(input.type));
  }
}

std::vector<TensorType> output_types(const GraphFunction& callee) {
  std::vector<TensorType> types;
  for (const ValueId output : callee.outputs) types.push_back(callee.value(output).type);
  return types;
}

std::string shown(const std::vector<TensorType>& types) {
  std::string text;
  for (const TensorType& type : types) text += (text.empty() ? "" : ", ") + to_string(type);
  return text.empty() ? "none" : text;
}

std::vector<TensorType> infer_while(const Op& op, Types operands, const Graph& graph) {
  if (op.functions.size() != 2)
    refuse("while names two functions", std::to_string(op.functions.size()), "condition and body");
  const GraphFunction &condition = function_at(op, 0, graph), &body = function_at(op, 1, graph);
  check_inputs(condition, operands);
  check_inputs(body, operands);
  if (output_types(condition) != std::vector<TensorType>{{DType::boolean, {}}})
    refuse("the condition of while has the wrong outputs", shown(output_types(condition)), "bool[]");
  std::vector<TensorType> state;
  for (const TensorType* operand : operands) state.push_back(*operand);
  if (output_types(body) != state)
    refuse("the body of while changes the type of its state", shown(output_types(body)), shown(state));
  if (op.attributes.integer("trips", 0) < 0)
    refuse("attribute 'trips' is negative", std::to_string(op.attributes.integer("trips", 0)), "at least 0");
  return state;
}

std::vector<TensorType> infer_branch(const Op& op, Types operands, const Graph& graph) {
  const TensorType& which = *operands[0];
  want_shape(which, {}, "which");
  const bool two = which.dtype == DType::boolean;
  if (!two) want_integer(which, "which");
  if (op.functions.empty() || (two && op.functions.size() != 2))
    refuse("branch has the wrong number of functions", std::to_string(op.functions.size()), two ? "2" : "at least 1");
  const std::vector<TensorType> results = output_types(function_at(op, 0, graph));
  for (std::size_t i = 0; i < op.functions.size(); ++i) {
    const GraphFunction& callee = function_at(op, i, graph);
    check_inputs(callee, operands.subspan(1));
    if (output_types(callee) != results)
      refuse("the branches differ in type", shown(output_types(callee)), shown(results));
  }
  return results;
}

KindInfo control(Kind kind, std::string_view name) {
  return {.kind = kind,
          .name = name,
          .min_operands = 0,
          .max_operands = -1,
          .min_results = 0,
          .max_results = -1,
          .operand_names = {"state..."},
          .attributes = {},
          .infer = infer_while,
          .flops = no_flops,
          .domain = opaque_domain};
}

}  // namespace

void add_control(std::vector<KindInfo>& table) {
  KindInfo loop = control(Kind::while_loop, "while");
  loop.attributes = {optional("trips", AttributeType::integer)};
  table.push_back(std::move(loop));
  KindInfo branch = control(Kind::branch, "branch");
  branch.min_operands = 1;
  branch.operand_names = {"which", "x..."};
  branch.infer = infer_branch;
  table.push_back(std::move(branch));
}

}  // namespace tilesim::rules
