// call and fused: operations that contain a function.
#include "tilesim/graph/kinds/rules.hpp"

namespace tilesim::rules {
namespace {

std::vector<TensorType> infer_call(const Op& op, Types operands, const Graph& graph) {
  if (op.functions.size() != 1)
    refuse("a call names one function", std::to_string(op.functions.size()) + " functions", "1");
  if (op.functions[0] < 0 || at(op.functions[0]) >= graph.functions.size())
    refuse("the called function does not exist", std::to_string(op.functions[0]),
           "0 to " + std::to_string(graph.functions.size() - 1));
  const GraphFunction& callee = graph.functions[at(op.functions[0])];
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
  std::vector<TensorType> results;
  for (const ValueId output : callee.outputs) results.push_back(callee.value(output).type);
  return results;
}

KindInfo call(Kind kind, std::string_view name) {
  return {.kind = kind,
          .name = name,
          .min_operands = 0,
          .max_operands = -1,
          .min_results = 0,
          .max_results = -1,
          .operand_names = {"input..."},
          .attributes = {optional("role", AttributeType::text)},
          .infer = infer_call,
          .flops = no_flops,
          .domain = opaque_domain};
}

}  // namespace

void add_functions(std::vector<KindInfo>& table) {
  table.push_back(call(Kind::call, "call"));
  table.push_back(call(Kind::fused, "fused"));
}

}  // namespace tilesim::rules
