#include "tilesim/program/vector_work.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

namespace tilesim::program {

namespace {

/// Registers that kernels give an instruction together where rows are many: what holds its pipe so long whatever the
/// group takes a fourth of that for each.
constexpr double group = 4;

/// Cycles by unit, several instructions on one unit together.
class OwnUnits {
 public:
  void add(const UserInstruction& one) {
    if (one.latency) work_.latency = std::max(work_.latency, static_cast<std::int64_t>(std::ceil(*one.latency)));
    if (!one.cycles()) return;
    const std::int64_t milli = std::llround((one.per_register ? *one.per_register : *one.whole / group) * 1000);
    if (one.own)
      apart_[one.own->name] += (milli + one.own->pipes - 1) / one.own->pipes;
    else if (one.unit == "arithmetic" || one.unit == "special")  // machines have no pipe of special functions
      work_.shared += milli;
    else if (one.unit == "cross-lane")
      work_.crossing += milli;
    else
      apart_[one.unit] += milli;
  }
  OwnWork work() const {
    OwnWork all = work_;
    for (const auto& [unit, milli] : apart_) all.apart = std::max(all.apart, milli);
    return all;
  }

 private:
  OwnWork work_;
  std::map<std::string, std::int64_t> apart_;
};

}  // namespace

VectorWork work_of(const std::vector<VectorNodeSpec>& nodes, int lane, const UserInstructions& taken) {
  VectorWork work;
  OwnUnits own;
  for (const VectorNodeSpec& spec : nodes) {
    if (spec.node.op == VectorNode::Op::function)
      if (const auto found = taken.find(spec.node.function); found != taken.end()) {
        own.add(found->second);
        if (found->second.cycles()) continue;
      }
    FlopClass kind = FlopClass::move;
    if (spec.node.op == VectorNode::Op::function) kind = info(spec.node.function).flop_class;
    if (spec.node.op == VectorNode::Op::convert || spec.node.op == VectorNode::Op::scan ||
        spec.node.op == VectorNode::Op::iota)
      kind = FlopClass::simple;
    work.lane_scans += spec.node.op == VectorNode::Op::scan && spec.node.index == lane;
    if (kind != FlopClass::move) ++work.functions[static_cast<std::size_t>(kind) - 1];
  }
  work.own = own.work();
  return work;
}

VectorWork work_of(const VectorOp& op, const UserInstructions& taken) {
  const int lane = op.lane_dim >= 0 ? op.lane_dim : static_cast<int>(op.extents.size()) - 1;
  VectorWork work = work_of(op.nodes, lane, taken);
  for (const VectorOutputSpec& output : op.outputs) {
    // What several computes sum one after the other costs as much as what one of them sums.
    const bool accumulates = !output.accumulate.is_constant() || output.accumulate.value() != 0;
    if (!output.reduce.empty() || accumulates) ++work.functions[output.combiner == Combiner::multiply ? 1 : 0];
    work.lane_reductions += std::find(output.reduce.begin(), output.reduce.end(), op.lane_dim) != output.reduce.end();
  }
  return work;
}

}  // namespace tilesim::program
