// Emits the statements of a product kernel.
#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/product/product.hpp"

namespace tilesim::lower {

using program::Block;
using program::View;

/// Loads operands: first whole tiles, in order, then tiles that arrive in pieces.
void ProductLowering::emit_operands(const std::vector<int>& operands, Block& block) {
  std::vector<int> in_pieces;
  for (int i : operands)
    if (operands_[i].prologue)
      emit_prologue(i, block);
    else if (arrives_in_pieces(i))
      in_pieces.push_back(i);
    else
      emit_load(i, block);
  if (!in_pieces.empty()) load_in_pieces(in_pieces, block);
}

void ProductLowering::emit_load(int index, Block& block) {
  const mapping::KernelPlan::TileRing& buffer = plan_.buffers[static_cast<std::size_t>(index)];
  const Access& access = domain_.operands[static_cast<std::size_t>(index)];
  std::vector<Expr> start, extent;
  bool leaves_tensor = false;
  for (const AxisAccess& axis : access.axes) {
    start.push_back(axis_start(axis));
    extent.push_back(axis_extent(axis) + Expr(buffer.along[extent.size()]));
    leaves_tensor |= axis.may_leave;
  }
  std::vector<program::Transfer> transfers = transfers_of(index, start, extent);
  if (leaves_tensor)
    for (program::Transfer& transfer : transfers) transfer.fill = 0.0;
  if (buffer.sent) {
    emit_multicast(index, std::move(transfers), extent, block);
  } else {
    Block load;
    for (program::Transfer& transfer : transfers) load.push_back(statement(program::Load{std::move(transfer)}));
    if (skips()) load = where_left(is_needed(index), std::move(load));
    std::move(load.begin(), load.end(), std::back_inserter(block));
  }
  if (index == 0 && nest_.unfold > 0) emit_unfold(block);
}

void ProductLowering::fetch_leaf(const Leaf& leaf, const std::vector<Expr>& start, const std::vector<Expr>& extent,
                                 bool over_edges, Block& block) {
  const Shape& shape = context_.value(leaf.value).type.shape;
  std::vector<Expr> from, size;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const auto full = static_cast<std::size_t>(leaf.axis_of[axis]);
    from.push_back(shape[axis] > 1 ? start[full] : Expr(0));
    size.push_back(shape[axis] > 1 ? extent[full] : Expr(1));
  }
  program::Transfer transfer = region_transfer(context_.placements[static_cast<std::size_t>(leaf.value)], from, size,
                                               leaf.slot_strides, leaf.slot);
  if (over_edges) transfer.fill = 0.0;
  block.push_back(statement(program::Load{std::move(transfer)}));
}

View ProductLowering::leaf_view(const Leaf& leaf, const std::vector<Expr>& extent) const {
  View view{leaf.slot, 0, 0, {}};
  for (const Expr& size : extent) view.dims.push_back({size, 0});
  const Shape& shape = context_.value(leaf.value).type.shape;
  for (std::size_t axis = 0; axis < shape.size(); ++axis)
    if (shape[axis] > 1) view.dims[static_cast<std::size_t>(leaf.axis_of[axis])].stride = leaf.slot_strides[axis];
  return view;
}

/// Sets elements beyond the operand's edges to zero, which the fused operations may have changed.
int ProductLowering::inside_edges(int index, int node, const std::vector<Expr>& start, DagBuilder& dag) const {
  const std::vector<AxisAccess>& axes = domain_.operands[static_cast<std::size_t>(index)].axes;
  const Shape& shape = problem_.shapes[static_cast<std::size_t>(index)];
  auto& nodes = dag.nodes();
  const auto add = [&](VectorNode made, Expr scalar = 0) {
    nodes.push_back({made, std::move(scalar)});
    return static_cast<int>(nodes.size()) - 1;
  };
  const auto apply = [&](Function function, std::array<int, 3> arguments, DType dtype) {
    return add({.op = VectorNode::Op::function, .function = function, .arguments = arguments, .dtype = dtype});
  };
  const DType dtype = problem_.dtypes[static_cast<std::size_t>(index)], place = DType::i32;
  for (std::size_t axis = 0; axis < axes.size(); ++axis) {
    if (!axes[axis].may_leave) continue;
    const int first = add({.op = VectorNode::Op::scalar, .dtype = place}, start[axis]);
    const int own = add({.op = VectorNode::Op::iota, .index = static_cast<int>(axis), .dtype = place});
    const int at = apply(Function::add, {own, first, -1}, place);
    const auto number = [&](std::int64_t value, DType type) {
      return add({.op = VectorNode::Op::constant, .number = static_cast<double>(value), .dtype = type});
    };
    const int zero = number(0, dtype), low = number(0, place), high = number(shape[axis] - 1, place);
    const int near = apply(Function::clamp, {low, at, high}, place);
    node = apply(Function::select, {apply(Function::equal, {near, at, -1}, DType::boolean), node, zero}, dtype);
  }
  return node;
}

/// Computes the operand on the vector unit from stored values; the operand itself is never stored.
void ProductLowering::emit_prologue(int index, Block& block) {
  const Operand& operand = operands_[index];
  std::vector<Expr> start, extent;
  bool over_edges = false;
  for (const AxisAccess& axis : domain_.operands[static_cast<std::size_t>(index)].axes) {
    start.push_back(axis_start(axis));
    extent.push_back(axis_extent(axis));
    over_edges |= axis.may_leave;
  }
  program::VectorOp compute;
  compute.extents = extent;
  compute.lane_dim = static_cast<int>(extent.size()) - 1;
  DagBuilder dag(context_);
  for (std::size_t axis = 0; axis < extent.size(); ++axis) dag.axis_dim.push_back(static_cast<int>(axis));
  dag.axis_start = start;
  const std::vector<Leaf>& leaves = prologue_leaves_[index];
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    fetch_leaf(leaves[i], start, extent, over_edges, block);
    compute.inputs.push_back(leaf_view(leaves[i], extent));
    dag.bind_input(leaves[i].value, static_cast<int>(i));
  }
  const int node = inside_edges(index, dag.node_of(operand.value, fused_ops_), start, dag);
  compute.nodes = dag.nodes();
  View target{operand.slot, 0, 0, {}};
  for (std::size_t axis = 0; axis < extent.size(); ++axis)
    target.dims.push_back({extent[axis], operand.slot_strides[axis]});
  compute.outputs.push_back({node, target, {}, Combiner::add, 0});
  block.push_back(statement(std::move(compute)));
}

std::vector<Expr> ProductLowering::result_start() const {
  std::vector<Expr> values;
  for (const AxisAccess& axis : finished_axes()) values.push_back(axis_start(axis));
  return values;
}

std::vector<Expr> ProductLowering::result_extent() const {
  std::vector<Expr> values;
  for (const AxisAccess& axis : finished_axes()) values.push_back(axis_extent(axis));
  return values;
}

/// Number of windows before the current one, in loop order.
Expr ProductLowering::windows_before() const {
  Expr window = 0;
  for (int dim : nest_.order)
    if (loops(dim) && plan_.is_whole(dim))
      window = window * Expr(trips(dim)) + Expr::symbol("i_" + domain_.names[static_cast<std::size_t>(dim)]);
  return window;
}

/// Number of commits that complete the current window: one per array and window, plus one for sums without products.
Expr ProductLowering::window_pieces() const {
  return (windows_before() + Expr(1)) * Expr(unit_.grid.used() + (columns_of_zeros_ ? 1 : 0));
}

void ProductLowering::emit_finish(Block& block) {
  if (results_in_pieces()) return finish_in_pieces(block);
  block.push_back(complete("c"));
  if (columns_of_zeros_) fill_zero_sums(block);
  block.push_back(counted("c", window_pieces()));
  emit_results(block);
}

/// Stores the sums of the current tile or piece.
void ProductLowering::emit_results(Block& block) {
  if (!direct_) {
    emit_epilogue(block);
    return;
  }
  const std::vector<int> products = kernel_.products();
  for (std::size_t i = 0; i < products.size(); ++i) {
    const ValueId value = context_.function.ops[static_cast<std::size_t>(products[i])].results[0];
    program::Transfer transfer = region_transfer(context_.placements[static_cast<std::size_t>(value)], result_start(),
                                                 result_extent(), finished_strides(), "c");
    transfer.offset = sums_offset(i);
    block.push_back(statement(program::Store{std::move(transfer), {}, 0}));
  }
}

/// Views of the tile's sums, one per product.
std::vector<View> ProductLowering::sums_views(const std::vector<Expr>& extent) const {
  const std::vector<std::int64_t> strides = finished_strides();
  std::vector<View> views;
  for (std::size_t i = 0; i < kernel_.products().size(); ++i) {
    View& sums = views.emplace_back(View{"c", 0, sums_offset(i), {}});
    for (std::size_t axis = 0; axis < extent.size(); ++axis) sums.dims.push_back({extent[axis], strides[axis]});
  }
  return views;
}

/// Binds a product's result: sums plus bias, rounded once to its dtype. `sums`: the input with the sums.
void ProductLowering::bind_product(std::size_t sums, DagBuilder& dag) const {
  const std::vector<int> products = kernel_.products();
  const auto add_node = [&](VectorNode node) {
    dag.nodes().push_back({node, 0});
    return static_cast<int>(dag.nodes().size()) - 1;
  };
  const ValueId value = context_.function.ops[static_cast<std::size_t>(products[sums])].results[0];
  int result = add_node({.op = VectorNode::Op::input, .index = static_cast<int>(sums)});
  if (const auto leaf = bias_leaf_.find(products[sums]); leaf != bias_leaf_.end()) {
    const int bias = add_node({.op = VectorNode::Op::input, .index = leaf->second + static_cast<int>(products.size())});
    result = add_node({.op = VectorNode::Op::function, .function = Function::add, .arguments = {result, bias, -1}});
  }
  const DType dtype = context_.value(value).type.dtype;
  if (dtype != problem_.dtypes[2])
    result = add_node({.op = VectorNode::Op::convert, .arguments = {result, -1, -1}, .dtype = dtype});
  dag.bind_node(value, result);
}

void ProductLowering::emit_epilogue(Block& block) {
  const std::vector<Expr> start = result_start(), extent = result_extent();
  program::VectorOp compute;
  compute.extents = extent;
  compute.lane_dim = mapping::lane_axis(problem_, unit_) - (kernel_.parts.empty() ? 0 : 1);
  compute.inputs = sums_views(extent);
  DagBuilder dag(context_);
  for (std::size_t axis = 0; axis < extent.size(); ++axis) dag.axis_dim.push_back(static_cast<int>(axis));
  dag.axis_start = start;
  const std::size_t products = compute.inputs.size();
  for (std::size_t i = 0; i < epilogue_leaves_.size(); ++i) {
    fetch_leaf(epilogue_leaves_[i], start, extent, false, block);
    const auto input = static_cast<int>(compute.inputs.size());
    compute.inputs.push_back(leaf_view(epilogue_leaves_[i], extent));
    const bool bias = std::ranges::any_of(bias_leaf_, [&](const auto& of) { return of.second == static_cast<int>(i); });
    if (!bias) dag.bind_input(epilogue_leaves_[i].value, input);
  }
  for (std::size_t i = 0; i < products; ++i) bind_product(i, dag);
  for (const Output& output : outputs_) {
    program::VectorOutputSpec spec;
    View view{output.slot, 0, 0, {}};
    for (std::size_t axis = 0; axis < extent.size(); ++axis)
      view.dims.push_back({extent[axis], output.slot_strides[axis]});
    spec.view = view;
    spec.reduce = output.reduce;
    const Op* reduce = output.reduced_by;
    if (reduce) spec.combiner = parse_combiner(reduce->attributes.text("combiner"));
    spec.node = dag.node_of(reduce ? reduce->operands[0] : output.value, fused_ops_);
    compute.outputs.push_back(std::move(spec));
  }
  compute.nodes = dag.nodes();
  block.push_back(statement(std::move(compute)));
  for (const Output& output : outputs_) store_output(output, start, extent, block);
}

void ProductLowering::store_output(const Output& output, const std::vector<Expr>& start,
                                   const std::vector<Expr>& extent, Block& block) const {
  const Placement& placement = context_.placements[static_cast<std::size_t>(output.value)];
  std::vector<Expr> from, size;
  std::vector<std::int64_t> strides;
  const bool keeps = context_.value(output.value).type.shape.size() == extent.size();
  for (std::size_t axis = 0; axis < extent.size(); ++axis) {
    const bool reduced =
        std::find(output.reduce.begin(), output.reduce.end(), static_cast<int>(axis)) != output.reduce.end();
    if (reduced && !keeps) continue;
    from.push_back(reduced ? Expr(0) : start[axis]);
    size.push_back(reduced ? Expr(1) : extent[axis]);
    strides.push_back(reduced ? 0 : output.slot_strides[axis]);
  }
  block.push_back(statement(program::Store{region_transfer(placement, from, size, strides, output.slot), {}, 0}));
}

}  // namespace tilesim::lower
