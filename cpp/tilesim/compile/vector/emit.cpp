// Emits the statements of a vector kernel.
#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/compile/vector/vector.hpp"

namespace tilesim::lower {

using program::Block;
using program::View;

int add_node(std::vector<program::VectorNodeSpec>& nodes, VectorNode node) {
  nodes.push_back({node, 0});
  return static_cast<int>(nodes.size()) - 1;
}

/// Inputs of the kernel from which these values are computed, except through reductions, whose results are on chip.
std::vector<ValueId> VectorLowering::inputs_of(const std::vector<ValueId>& values) const {
  std::set<ValueId> seen;
  std::vector<ValueId> pending(values);
  while (!pending.empty()) {
    const ValueId value = pending.back();
    pending.pop_back();
    if (value == no_value || !seen.insert(value).second) continue;
    if (const auto made = makers_.find(value); made != makers_.end() && !is_reduce(made->second))
      pending.insert(pending.end(), op(made->second).operands.begin(), op(made->second).operands.end());
  }
  std::vector<ValueId> inputs;
  for (ValueId value : kernel_.inputs)
    if (seen.count(value)) inputs.push_back(value);
  return inputs;
}

void VectorLowering::load_inputs(const std::vector<int>& wanted, Block& block, bool points) const {
  for (int i : wanted) {
    const Held& held = inputs_[at(i)];
    block.push_back(load(held));
    if (held.shuffled) permute(held, true, points, block);
  }
}

VectorLowering::Compute VectorLowering::begin(bool points, const std::set<int>& finished) const {
  Compute compute(context_);
  for (std::size_t axis = 0; axis < space_.size(); ++axis) {
    compute.op.extents.push_back(points && reduced_[axis] ? Expr(1) : extent(axis));
    compute.dag.axis_dim.push_back(static_cast<int>(axis));
    compute.dag.axis_start.push_back(start(axis));
  }
  compute.op.lane_dim = lane_;
  for (const Held& held : inputs_) {
    compute.dag.bind_input(held.value, static_cast<int>(compute.op.inputs.size()));
    compute.op.inputs.push_back(view(held, points));
  }
  for (int i : finished) bind_result(compute, at(i));
  return compute;
}

std::vector<bool> needed_nodes(const std::vector<program::VectorNodeSpec>& nodes, const std::vector<int>& roots) {
  std::vector<bool> needed(nodes.size(), false);
  for (int root : roots) needed[at(root)] = true;
  for (std::size_t i = nodes.size(); i-- > 0;)
    if (needed[i])
      for (int argument : nodes[i].node.arguments)
        if (argument >= 0) needed[at(argument)] = true;
  return needed;
}

/// Drops inputs that no node reads.
void VectorLowering::finish(Compute& compute) {
  auto& nodes = compute.dag.nodes();
  std::vector<int> roots;
  for (const auto& output : compute.op.outputs) roots.push_back(output.node);
  const std::vector<bool> used = needed_nodes(nodes, roots);
  std::vector<int> node_map(nodes.size(), -1), input_map(compute.op.inputs.size(), -1);
  std::vector<program::VectorNodeSpec> kept;
  std::vector<View> inputs;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (!used[i]) continue;
    program::VectorNodeSpec spec = nodes[i];
    for (int& argument : spec.node.arguments)
      if (argument >= 0) argument = node_map[at(argument)];
    if (spec.node.op == VectorNode::Op::input) {
      int& mapped = input_map[at(spec.node.index)];
      if (mapped < 0) {
        mapped = static_cast<int>(inputs.size());
        inputs.push_back(compute.op.inputs[at(spec.node.index)]);
      }
      spec.node.index = mapped;
    }
    node_map[i] = static_cast<int>(kept.size());
    kept.push_back(std::move(spec));
  }
  for (auto& output : compute.op.outputs) output.node = node_map[at(output.node)];
  compute.op.nodes = std::move(kept);
  compute.op.inputs = std::move(inputs);
}

/// Reduces the tile into the reduction's slot; `accumulate`: combines with the results of earlier tiles.
void VectorLowering::emit_reduce(std::size_t index, const std::set<int>& finished, const Expr& accumulate,
                                 Block& block) const {
  const Op& reduce = op(reduces_[index]);
  const std::string combiner = reduce.attributes.text("combiner");
  Compute compute = begin(false, finished);
  program::VectorOutputSpec output;
  output.node = compute.dag.node_of(reduce.operands[0], ops_);
  output.view = view(sums_[index]);
  output.reduce = reduced_dims();
  output.combiner = combiner == "mean" ? Combiner::add : parse_combiner(combiner);
  output.accumulate = accumulate;
  compute.op.outputs.push_back(output);
  finish(compute);
  block.push_back(statement(std::move(compute.op)));
}

/// Computes all these outputs in one compute and stores them.
void VectorLowering::emit_outputs(Compute& compute, const std::vector<ValueId>& values, Block& block) const {
  std::vector<const Held*> targets;
  for (ValueId value : values)
    for (const Held& held : outputs_)
      if (held.value == value) targets.push_back(&held);
  if (targets.empty()) return;
  for (const Held* held : targets) {
    program::VectorOutputSpec output;
    output.node = compute.dag.node_of(held->value, ops_);
    output.view = view(*held);
    for (std::size_t axis = 0; axis < space_.size(); ++axis) output.view.dims[axis].extent = compute.op.extents[axis];
    compute.op.outputs.push_back(std::move(output));
  }
  store_outputs(compute, targets, block);
}

void VectorLowering::store_outputs(Compute& compute, const std::vector<const Held*>& targets, Block& block) const {
  finish(compute);
  block.push_back(statement(std::move(compute.op)));
  for (const Held* held : targets) {
    if (held->shuffled) permute(*held, false, !spans_rows(held->spans), block);
    block.push_back(statement(program::Store{transfer_of(load(*held)), {}, 0}));
  }
}

int mean_node(std::vector<program::VectorNodeSpec>& nodes, int sum, std::int64_t count, DType dtype) {
  const int divisor =
      add_node(nodes, {.op = VectorNode::Op::constant, .number = static_cast<double>(count), .dtype = dtype});
  return add_node(
      nodes,
      {.op = VectorNode::Op::function, .function = Function::divide, .arguments = {sum, divisor, -1}, .dtype = dtype});
}

/// Whether a mean is divided once per row, in its slot: if whole rows of an output, or later reductions, may read it.
/// Machines with a lowering profile divide again for each element, as the chip's own compiler does.
bool VectorLowering::divides_rows(std::size_t index) const {
  const Op& reduce = op(reduces_[index]);
  if (context_.machine.whole.lowering.fusion || reduce.attributes.text("combiner") != "mean") return false;
  const int level = level_of(reduce.results[0]);
  const auto later = [&](int other) { return level_of(op(other).results[0]) > level; };
  const auto whole = [&](ValueId output) { return spans_rows(spans(output)) && level_of(output) >= level; };
  return std::any_of(reduces_.begin(), reduces_.end(), later) ||
         std::any_of(kernel_.outputs.begin(), kernel_.outputs.end(), whole);
}

/// Divides a complete sum, in place, if it is a mean that is divided once per row.
void VectorLowering::divide_sum(std::size_t index, Block& block) const {
  if (!divides_rows(index)) return;
  const DType held = sum_dtype(context_.value(op(reduces_[index]).operands[0]).type.dtype);
  program::VectorOp divide;
  View place = view(sums_[index], true);
  for (const program::Dim& dim : place.dims) divide.extents.push_back(dim.extent);
  divide.lane_dim = lane_;
  divide.inputs.push_back(place);
  const int node = add_node(divide.nodes, {.op = VectorNode::Op::input, .index = 0, .dtype = held});
  divide.outputs.push_back({mean_node(divide.nodes, node, row_count(), held), std::move(place), {}, Combiner::add, 0});
  block.push_back(statement(std::move(divide)));
}

/// Binds the reduction's result to a node that computes it from the finished sum (mean, rounding).
void VectorLowering::bind_result(Compute& compute, std::size_t index) const {
  const Op& reduce = op(reduces_[index]);
  auto& nodes = compute.dag.nodes();
  const int sum = add_node(nodes, {.op = VectorNode::Op::input,
                                   .index = static_cast<int>(compute.op.inputs.size()),
                                   .dtype = sum_dtype(context_.value(reduce.operands[0]).type.dtype)});
  compute.op.inputs.push_back(view(sums_[index]));
  for (std::size_t axis = 0; axis < space_.size(); ++axis)
    compute.op.inputs.back().dims[axis].extent = compute.op.extents[axis];
  compute.dag.bind_node(reduce.results[0], result_node(nodes, index, sum));
}

int VectorLowering::result_node(std::vector<program::VectorNodeSpec>& nodes, std::size_t index, int sum) const {
  const Op& reduce = op(reduces_[index]);
  const DType held = sum_dtype(context_.value(reduce.operands[0]).type.dtype),
              wanted = context_.value(reduce.results[0]).type.dtype;
  const bool divided = reduce.attributes.text("combiner") != "mean" || divides_rows(index);
  int node = divided ? sum : mean_node(nodes, sum, row_count(), held);
  if (wanted != held)
    node = add_node(nodes, {.op = VectorNode::Op::convert, .arguments = {node, -1, -1}, .dtype = wanted});
  return node;
}

}  // namespace tilesim::lower
