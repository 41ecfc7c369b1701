#include "tilesim/program/vector_work.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

namespace tilesim::program {

namespace {

/// Registers per instruction group in kernels with many rows: an instruction that occupies its pipe for a fixed time
/// per group costs a fourth of this time per register.
constexpr double group = 4;

/// Cycles per unit, summed over the instructions of a unit.
class CustomUnits {
 public:
  void add(const UserInstruction& one) {
    if (one.latency) work_.latency = std::max(work_.latency, static_cast<std::int64_t>(std::ceil(*one.latency)));
    if (!one.cycles()) return;
    const std::int64_t milli = std::llround((one.per_register ? *one.per_register : *one.whole / group) * 1000);
    if (one.custom)
      apart_[one.custom->name] += (milli + one.custom->pipes - 1) / one.custom->pipes;
    else if (one.unit == "arithmetic" || one.unit == "special")  // machines have no pipe of special functions
      work_.shared += milli;
    else if (one.unit == "cross-lane")
      work_.crossing += milli;
    else
      apart_[one.unit] += milli;
  }
  CustomWork work() const {
    CustomWork all = work_;
    for (const auto& [unit, milli] : apart_) all.apart = std::max(all.apart, milli);
    return all;
  }

 private:
  CustomWork work_;
  std::map<std::string, std::int64_t> apart_;
};

}  // namespace

VectorWork work_of(const std::vector<VectorNodeSpec>& nodes, int lane, const CustomInstructions& own) {
  VectorWork work;
  CustomUnits units;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const VectorNodeSpec& spec = nodes[i];
    if (!own.empty() && own[i] != nullptr) {
      units.add(*own[i]);
      if (own[i]->cycles()) continue;
    }
    FlopClass kind = FlopClass::move;
    if (spec.node.op == VectorNode::Op::function) kind = info(spec.node.function).flop_class;
    if (spec.node.op == VectorNode::Op::convert || spec.node.op == VectorNode::Op::scan ||
        spec.node.op == VectorNode::Op::iota)
      kind = FlopClass::simple;
    work.lane_scans += spec.node.op == VectorNode::Op::scan && spec.node.index == lane;
    if (kind != FlopClass::move) ++work.functions[static_cast<std::size_t>(kind) - 1];
  }
  work.custom = units.work();
  return work;
}

namespace {

/// Bits of the dims along which a view varies.
std::uint32_t dims_of(const View& view) {
  std::uint32_t dims = 0;
  for (std::size_t i = 0; i < view.dims.size() && i < most_vector_dims; ++i) {
    const Expr& stride = view.dims[i].stride;
    if (!stride.is_constant() || stride.value() != 0) dims |= std::uint32_t{1} << i;
  }
  return dims;
}

bool accumulates(const VectorOutputSpec& output) {
  return !output.accumulate.is_constant() || output.accumulate.value() != 0;
}

std::uint32_t bits_of(const std::vector<int>& dims) {
  std::uint32_t all = 0;
  for (const int dim : dims) all |= std::uint32_t{1} << (dim & 31);
  return all;
}

bool has_cycles(const UserInstruction* own) { return own != nullptr && own->cycles(); }

/// A function that no other node of the compute has. Patterns identify user-defined instructions by function, and other
/// nodes may use the same function on other element types.
tilesim::Function function_beside(const std::vector<tilesim::Function>& others) {
  for (int i = 0; i < function_count; ++i) {
    const auto one = static_cast<tilesim::Function>(i);
    const bool plain = info(one).arity == 1 && !info(one).returns_boolean && one != tilesim::Function::relu;
    if (plain && std::ranges::find(others, one) == others.end()) return one;
  }
  return tilesim::Function::identity;
}

}  // namespace

VectorPattern pattern_of(const VectorOp& op, const DTypeOf& dtype_of, const CustomInstructions& own) {
  if (op.extents.size() > most_vector_dims) return {};
  std::vector<VectorNode> nodes;
  std::vector<VectorRead> reads;
  std::vector<VectorWrite> writes;
  for (const VectorNodeSpec& spec : op.nodes) nodes.push_back(spec.node);
  for (const View& view : op.inputs) reads.push_back({dtype_of(view), dims_of(view)});
  for (const VectorOutputSpec& output : op.outputs)
    writes.push_back(
        {output.node, dtype_of(output.view), bits_of(output.reduce), output.combiner, accumulates(output)});
  if (own.empty()) return pattern_of(nodes, reads, writes);
  std::vector<tilesim::Function> others;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (!has_cycles(own[i]) && nodes[i].op == VectorNode::Op::function) others.push_back(nodes[i].function);
  const tilesim::Function mark = function_beside(others);
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (has_cycles(own[i])) nodes[i].function = mark;
  return pattern_of(nodes, reads, writes, {mark});
}

VectorWork work_of(const VectorOp& op, const CustomInstructions& own) {
  const int lane = op.lane_dim >= 0 ? op.lane_dim : static_cast<int>(op.extents.size()) - 1;
  VectorWork work = work_of(op.nodes, lane, own);
  for (const VectorOutputSpec& output : op.outputs) {
    // Accumulating over several computes costs as much as a reduction within one compute.
    if (!output.reduce.empty() || accumulates(output)) ++work.functions[output.combiner == Combiner::multiply ? 1 : 0];
    work.lane_reductions += std::find(output.reduce.begin(), output.reduce.end(), op.lane_dim) != output.reduce.end();
  }
  return work;
}

}  // namespace tilesim::program
