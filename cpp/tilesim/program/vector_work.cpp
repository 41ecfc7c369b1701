#include "tilesim/program/vector_work.hpp"

#include <algorithm>

namespace tilesim::program {

VectorWork work_of(const std::vector<VectorNodeSpec>& nodes, int lane) {
  VectorWork work;
  for (const VectorNodeSpec& spec : nodes) {
    FlopClass kind = FlopClass::move;
    if (spec.node.op == VectorNode::Op::function) kind = info(spec.node.function).flop_class;
    if (spec.node.op == VectorNode::Op::convert || spec.node.op == VectorNode::Op::scan ||
        spec.node.op == VectorNode::Op::iota)
      kind = FlopClass::simple;
    work.lane_scans += spec.node.op == VectorNode::Op::scan && spec.node.index == lane;
    if (kind != FlopClass::move) ++work.functions[static_cast<std::size_t>(kind) - 1];
  }
  return work;
}

VectorWork work_of(const VectorOp& op) {
  VectorWork work = work_of(op.nodes, op.lane_dim >= 0 ? op.lane_dim : static_cast<int>(op.extents.size()) - 1);
  for (const VectorOutputSpec& output : op.outputs) {
    // What several computes sum one after the other costs as much as what one of them sums.
    const bool accumulates = !output.accumulate.is_constant() || output.accumulate.value() != 0;
    if (!output.reduce.empty() || accumulates) ++work.functions[output.combiner == Combiner::multiply ? 1 : 0];
    work.lane_reductions += std::find(output.reduce.begin(), output.reduce.end(), op.lane_dim) != output.reduce.end();
  }
  return work;
}

}  // namespace tilesim::program
