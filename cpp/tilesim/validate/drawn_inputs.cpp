#include "tilesim/validate/drawn_inputs.hpp"

#include <set>

#include "tilesim/base/index.hpp"
#include "tilesim/graph/passes/sparse_plan.hpp"

namespace tilesim::validate {

namespace {

/// Draw patterns of constants, by reference: equal for all readers.
std::map<std::string, Pattern> weight_patterns(const Graph& graph, const Patterns& patterns) {
  std::map<std::string, Pattern> result;
  for (std::size_t f = 0; f < graph.functions.size(); ++f)
    for (const Op& op : graph.functions[f].ops) {
      if (op.kind != Kind::constant) continue;
      const Pattern& own = patterns.values[f][at(op.results[0])];
      const auto [entry, fresh] = result.try_emplace(op.attributes.text("reference"), own);
      if (!fresh && (own.draw == Draw::keep || entry->second.draw != own.draw || entry->second.axes != own.axes))
        entry->second = {own.draw == Draw::keep || entry->second.draw == Draw::keep ? Draw::keep : Draw::dense, {}};
    }
  return result;
}

/// Derives the tensors that sparse cores read from the drawn values of their weights.
void store_drawn(const Graph& graph, const program::Program& program, const std::map<std::string, Array>& given,
                 std::map<std::string, Array>& drawn) {
  std::map<std::string, std::string> tensors;  // by weight
  for (const program::Tensor& tensor : program.tensors)
    if (tensor.role == program::Role::weight) tensors[tensor.weight] = tensor.name;
  for (const Op& op : graph.entry().ops) {
    const auto plan = sparse_plan_of(graph, op);
    for (const int operand : {0, 1}) {
      if (!plan || plan->forms[operand] == 0) continue;
      const std::string& whole = tensors[constant_of(graph.entry(), op.operands[at(operand)])];
      const std::string& values = tensors[plan->name + (operand == 0 ? ".a.values" : ".b.values")];
      if (given.contains(whole) && drawn.contains(values) && !is_two_of_four(given.at(whole).dtype()))
        drawn[values] = stored_values(*plan, op, operand, given.at(whole), drawn.at(whole));
    }
  }
}

}  // namespace

std::map<std::string, Array> drawn_inputs(const Graph& graph, const program::Program& program, const Patterns& patterns,
                                          const std::map<std::string, Array>& inputs) {
  std::map<std::string, Array> result = inputs;
  std::map<std::string, Pattern> of_weights = weight_patterns(graph, patterns), of_inputs;
  const std::set<std::string> zeros = with_known_zeros(graph);
  const GraphFunction& entry = graph.entry();
  const auto main = static_cast<std::size_t>(&entry - graph.functions.data());
  for (const ValueId id : entry.inputs) of_inputs[entry.value(id).name] = patterns.values[main][at(id)];
  for (const program::Tensor& tensor : program.tensors) {
    const auto found = result.find(tensor.name);
    if (found == result.end()) continue;
    const bool weight = tensor.role == program::Role::weight;
    const Pattern pattern = weight ? of_weights[tensor.weight] : of_inputs[tensor.name];
    if (pattern.draw == Draw::keep || is_two_of_four(found->second.dtype())) continue;
    Array values = drawn(pattern, found->second.dtype(), found->second.shape(), tensor.name);
    found->second = weight && zeros.contains(tensor.weight) ? with_zeros_of(found->second, values) : std::move(values);
  }
  store_drawn(graph, program, inputs, result);
  return result;
}

}  // namespace tilesim::validate
