#include "tilesim/compile/apart.hpp"

#include "tilesim/compile/making.hpp"
#include "tilesim/graph/builder.hpp"
#include "tilesim/graph/passes.hpp"
#include "tilesim/mapping/cost.hpp"

namespace tilesim {

namespace {

/// A graph of this one operation, expanded into primitives. Its operands become inputs.
Graph expanded_alone(const GraphFunction& function, const Op& op) {
  Graph graph;
  Builder builder(graph, "apart");
  std::vector<ValueId> operands;
  for (const ValueId operand : op.operands)
    operands.push_back(operand == no_value
                           ? no_value
                           : builder.input("x" + std::to_string(operands.size()), function.value(operand).type));
  builder.output(builder.op(op.kind, operands, op.attributes, "apart")[0], "y");
  builder.finish();
  expand(graph);
  return graph;
}

}  // namespace

lower::ApartCycles apart_prices(const Share& machine, const CompileOptions& options, std::int64_t contexts) {
  return [&machine, &options, contexts](const GraphFunction& function, const Op& op, bool stays) {
    const Graph graph = expanded_alone(function, op);
    std::vector<ProductChoice> products;
    std::vector<VectorChoice> vectors;
    CompileOptions alone = options;
    alone.only.clear();
    alone.levels.clear();
    alone.record_fusion = nullptr;
    alone.unused = nullptr;
    alone.record = &products;
    alone.record_vectors = &vectors;
    if (stays && options.timed && options.residency == "auto")
      return static_cast<double>(options.timed(making(graph, machine.whole, alone)->finished("auto")).cycles);
    lowered_on(graph, machine, alone, contexts, machine);
    double cycles = 0;
    for (const ProductChoice& choice : products)
      cycles += mapping::CostModel(choice.problem, choice.machine).cycles(choice.nest);
    for (const VectorChoice& choice : vectors)
      cycles += mapping::price(choice.problem, choice.tiles, choice.machine).cycles;
    return cycles;
  };
}

}  // namespace tilesim
