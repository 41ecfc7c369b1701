// Emits loads, products, depthwise windows and fused operations of one tile of a chain.
#include <algorithm>

#include "tilesim/base/index.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/chain/lowering.hpp"
#include "tilesim/tile/compute.hpp"
#include "tilesim/tile/latency.hpp"

namespace tilesim::lower {

using program::Block;
using program::View;

std::vector<Expr> ChainLowering::by_axes(const ChainAxes& axes, std::size_t rank, const Expr& lead, const Expr& row,
                                         const Expr& column, const Expr& channel) {
  std::vector<Expr> values(rank, 0);
  const auto set = [&](int axis, const Expr& value) {
    if (axis >= 0) values[at(axis)] = value;
  };
  set(axes.lead, lead), set(axes.row, row), set(axes.column, column), set(axes.channel, channel);
  return values;
}

std::vector<std::int64_t> ChainLowering::by_axes(const ChainAxes& axes, std::size_t rank, const ChainStrides& strides) {
  std::vector<std::int64_t> values(rank, 0);
  if (axes.row >= 0) values[at(axes.row)] = strides.row;
  if (axes.column >= 0) values[at(axes.column)] = strides.column;
  if (axes.channel >= 0) values[at(axes.channel)] = strides.channel;
  return values;
}

program::Transfer ChainLowering::region(ValueId value, const ChainAxes& axes, const Box& box,
                                        const ChainTile& tile) const {
  const std::size_t rank = context_.value(value).type.shape.size();
  return region_transfer(
      context_.placements[at(value)], by_axes(axes, rank, box.lead, box.row, box.column, box.channel),
      by_axes(axes, rank, 1, box.rows, box.columns, box.channels), by_axes(axes, rank, tile.strides), tile.slot);
}

/// Strides of a weight tile in its slot, in the weights' order of axes.
std::vector<std::int64_t> ChainLowering::weight_strides(Stage stage) const {
  Shape tile = context_.value(anchor(stage).operands[1]).type.shape;
  tile[at(hidden_axis(stage))] = plan_.holds(stage) ? p_.hidden : plan_.hidden;
  return row_major_strides(tile);
}

/// Offset of the current tile of hidden channels in resident weights; 0 if each tile is loaded.
Expr ChainLowering::weight_offset(Stage stage) const {
  return plan_.holds(stage) ? channel_ * Expr(weight_strides(stage)[at(hidden_axis(stage))]) : Expr(0);
}

void ChainLowering::load_weights(Stage stage, Block& block) const {
  const ValueId weights = anchor(stage).operands[1];
  const Shape& shape = context_.value(weights).type.shape;
  std::vector<Expr> start(shape.size(), 0), extent(shape.begin(), shape.end());
  if (!plan_.holds(stage)) {
    start[at(hidden_axis(stage))] = channel_;
    extent[at(hidden_axis(stage))] = channels_;
  }
  const std::string slot = numbered("w", stage);
  block.push_back(statement(
      program::Load{region_transfer(context_.placements[at(weights)], start, extent, weight_strides(stage), slot)}));
}

/// Splits the columns over the arrays.
void ChainLowering::multiply(Stage stage, const ChainTile& from, const ChainTile& to, const Expr& rows,
                             const Expr& depth, const Expr& columns, const Expr& accumulate, Block& block) const {
  const std::vector<std::int64_t> strides = weight_strides(stage);
  const std::int64_t out = strides[at(ops(stage).out)], in = strides[at(ops(stage).in)];
  const std::int64_t most = stage == Stage::first ? plan_.hidden : p_.out, chunk = ceil_div(most, arrays_);
  const Expr wide = columns_used_;
  for (std::int64_t i = 0; i < arrays_; ++i) {
    const Expr count = arrays_ == 1 ? columns : max(Expr(0), min(Expr(chunk), columns - Expr(i * chunk)));
    if (count.is_constant() && count.value() == 0) continue;
    const Expr across = stage == Stage::first ? wide : Expr(p_.columns);
    const bool first = stage == Stage::first;
    const mapping::ChainProblem::Window row = first ? p_.first_row : mapping::ChainProblem::Window{};
    const mapping::ChainProblem::Window column = first ? p_.first_column : mapping::ChainProblem::Window{};
    program::MmaOp mma;
    mma.m_dims = 2;
    mma.a = {from.slot,
             0,
             from.offset,
             {{rows, from.strides.row * row.stride}, {across, from.strides.column * column.stride}}};
    mma.b = {numbered("w", stage), 0, weight_offset(stage) + Expr(i * chunk * out), {}};
    if (row.taps * column.taps > 1) {
      mma.k_dims = 3;
      mma.a.dims.push_back({row.taps, from.strides.row * row.dilation});
      mma.a.dims.push_back({column.taps, from.strides.column * column.dilation});
      mma.b.dims.push_back({row.taps, strides[at(ops(stage).row)]});
      mma.b.dims.push_back({column.taps, ops(stage).column < 0 ? 0 : strides[at(ops(stage).column)]});
    }
    mma.a.dims.push_back({depth, from.strides.channel});
    mma.b.dims.push_back({depth, in});
    mma.b.dims.push_back({count, out});
    mma.c = {to.slot,
             0,
             to.offset + Expr(i * chunk * to.strides.channel),
             {{rows, to.strides.row}, {across, to.strides.column}, {count, to.strides.channel}}};
    mma.accumulate = accumulate;
    mma.numerics = context_.machine.core.array.numerics;
    Block one;
    one.push_back(on("mma" + std::to_string(i), std::move(mma)));
    if (count.is_constant() || i == 0)
      block.push_back(std::move(one[0]));
    else
      block.push_back(on("", program::If{less(Expr(0), count), std::move(one), {}}));
  }
}

/// The axis on the lanes: channels or columns, whichever keeps the vector unit busy for fewer cycles.
int ChainLowering::lane_dim(const ChainAxes& axes, std::int64_t rows, std::int64_t columns,
                            std::int64_t channels) const {
  const auto busy = [&](int lane) {
    VectorWork work;
    work.functions = {1, 0, 0, 0};
    const std::int64_t extents[] = {channels, rows, columns};
    return vector_latency(context_.machine,
                          vector_descriptor(DType::f32, work, 3, lane, [&](int i) { return extents[i]; }))
        .busy;
  };
  return axes.column >= 0 && busy(2) <= busy(0) ? axes.column : axes.channel;
}

void ChainLowering::zeros(const ChainTile& tile, const ChainAxes& axes, const Expr& row, const Expr& column,
                          const Expr& rows, const Expr& columns, Block& block) const {
  const auto none = [](const Expr& extent) { return extent.is_constant() && extent.value() <= 0; };
  if (none(rows) || none(columns)) return;
  const std::size_t rank = context_.value(ops(Stage::first).result).type.shape.size();
  program::VectorOp compute;
  compute.extents = by_axes(axes, rank, 1, rows, columns, channels_);
  for (Expr& extent : compute.extents)
    if (none(extent)) extent = 1;
  compute.lane_dim = axes.channel;
  compute.nodes.push_back({{.op = VectorNode::Op::constant, .number = 0, .dtype = DType::f32}, 0});
  const std::vector<std::int64_t> strides = by_axes(axes, rank, tile.strides);
  View view{tile.slot, 0, row * Expr(tile.strides.row) + column * Expr(tile.strides.column), {}};
  for (std::size_t axis = 0; axis < rank; ++axis) view.dims.push_back({compute.extents[axis], strides[axis]});
  compute.outputs.push_back({0, std::move(view), {}, Combiner::add, 0});
  Block one;
  one.push_back(statement(std::move(compute)));
  if (rows.is_constant())
    block.push_back(std::move(one[0]));
  else
    block.push_back(on("", program::If{less(Expr(0), rows), std::move(one), {}}));
}

/// Stores zeros where the window reads beyond the edges of the first product's result.
void ChainLowering::clear_borders(Block& block) const {
  const ChainTile& tile = between_[0];
  const ChainAxes& axes = ops(Stage::first).y;
  const std::int64_t wide = p_.span_columns(), left = p_.column.pad, right = wide - left - columns_used_;
  if (left > 0) zeros(tile, axes, 0, 0, span_, left, block);
  if (right > 0) zeros(tile, axes, 0, left + columns_used_, span_, right, block);
  if (p_.row.pad > 0) zeros(tile, axes, 0, left, top_, columns_used_, block);
  if (p_.row.span(p_.rows) - p_.row.pad > p_.rows_in)
    zeros(tile, axes, top_ + read_, left, span_ - top_ - read_, columns_used_, block);
}

/// View of an operand of a stage's fused operations, with one dim per axis of the stage's result.
View ChainLowering::leaf_view(Stage stage, std::size_t number, const std::vector<Expr>& extent) const {
  const ChainStageOps& own = ops(stage);
  const ChainLeaf& leaf = own.leaves[number];
  const Shape& shape = context_.value(leaf.value).type.shape;
  const std::vector<std::int64_t> whole = by_axes(own.y, extent.size(), y_.strides);
  View read{leaf_slot(stage, number), 0, holds_leaf(stage) ? channel_ : Expr(0), {}};
  for (const Expr& e : extent) read.dims.push_back({e, 0});
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const std::size_t of = at(leaf.axis_of[axis]);
    if (shape[axis] > 1) read.dims[of].stride = leaf.whole ? whole[of] : 1;
    if (shape[axis] == 1 && static_cast<int>(of) == own.y.channel) read.offset = 0;
  }
  if (shape.empty()) read.offset = 0;
  return read;
}

/// Binds the product's result: sums plus bias, rounded once. `bias`: the input with the bias; -1: none.
void ChainLowering::bind_product(Stage stage, int bias, DagBuilder& dag) const {
  const auto add = [&](VectorNode node) {
    dag.nodes().push_back({node, 0});
    return static_cast<int>(dag.nodes().size()) - 1;
  };
  int result = add({.op = VectorNode::Op::input, .index = 0});
  if (bias >= 0) {
    const int added = add({.op = VectorNode::Op::input, .index = bias});
    result = add({.op = VectorNode::Op::function, .function = Function::add, .arguments = {result, added, -1}});
  }
  const DType dtype = context_.value(anchor(stage).results[0]).type.dtype;
  if (dtype != DType::f32) result = add({.op = VectorNode::Op::convert, .arguments = {result, -1, -1}, .dtype = dtype});
  dag.bind_node(anchor(stage).results[0], result);
}

/// Computes a stage's result from its sums: bias and fused operations, each rounded as if it were stored.
void ChainLowering::finish(Stage stage, const ChainTile& sums, const ChainTile& to, const Box& box,
                           Block& block) const {
  const ChainStageOps& own = ops(stage);
  const std::size_t rank = context_.value(own.result).type.shape.size();
  const std::vector<Expr> start = by_axes(own.y, rank, box.lead, box.row, box.column, box.channel);
  std::vector<Expr> extent = by_axes(own.y, rank, 1, box.rows, box.columns, box.channels);
  program::VectorOp compute;
  compute.extents = extent;
  const auto most = [](const Expr& e, std::int64_t whole) { return e.is_constant() ? e.value() : whole; };
  compute.lane_dim =
      lane_dim(own.y, most(box.rows, plan_.rows), most(box.columns, p_.columns), most(box.channels, plan_.hidden));
  const auto view = [&](const ChainTile& tile) {
    View made{tile.slot, 0, tile.offset, {}};
    const std::vector<std::int64_t> strides = by_axes(own.y, rank, tile.strides);
    for (std::size_t axis = 0; axis < rank; ++axis) made.dims.push_back({extent[axis], strides[axis]});
    return made;
  };
  compute.inputs.push_back(view(sums));
  DagBuilder dag(context_);
  for (std::size_t axis = 0; axis < rank; ++axis) dag.axis_dim.push_back(static_cast<int>(axis));
  dag.axis_start = start;
  int bias = -1;
  for (std::size_t i = 0; i < own.leaves.size(); ++i) {
    const ChainLeaf& leaf = own.leaves[i];
    if (!holds_leaf(stage)) load_leaf(stage, i, start, extent, block);
    compute.inputs.push_back(leaf_view(stage, i, extent));
    if (leaf.bias)
      bias = static_cast<int>(i) + 1;
    else
      dag.bind_input(leaf.value, static_cast<int>(i) + 1);
  }
  bind_product(stage, bias, dag);
  program::VectorOutputSpec output;
  output.view = view(to);
  output.node = dag.node_of(own.result, {own.ops.begin(), own.ops.end()});
  compute.outputs.push_back(std::move(output));
  compute.nodes = dag.nodes();
  block.push_back(statement(std::move(compute)));
}

/// Loads the part of an operand of fused operations that a tile of the result needs; the tile begins at `start`.
void ChainLowering::load_leaf(Stage stage, std::size_t number, const std::vector<Expr>& start,
                              const std::vector<Expr>& extent, Block& block) const {
  const ChainLeaf& leaf = ops(stage).leaves[number];
  const Shape& shape = context_.value(leaf.value).type.shape;
  const std::vector<std::int64_t> whole = by_axes(ops(stage).y, start.size(), y_.strides);
  std::vector<Expr> from, size;
  std::vector<std::int64_t> strides;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const std::size_t of = at(leaf.axis_of[axis]);
    from.push_back(shape[axis] > 1 ? start[of] : Expr(0));
    size.push_back(shape[axis] > 1 ? extent[of] : Expr(1));
    strides.push_back(shape[axis] > 1 ? (leaf.whole ? whole[of] : 1) : 0);
  }
  const std::string slot = leaf_slot(stage, number);
  block.push_back(
      statement(program::Load{region_transfer(context_.placements[at(leaf.value)], from, size, strides, slot)}));
}

/// Loads tensors that stay on chip for all tiles of a block of rows.
void ChainLowering::load_held(Block& block) const {
  for (const Stage stage : {Stage::first, Stage::middle, Stage::last}) {
    if (!has(stage)) continue;
    if (plan_.holds(stage)) load_weights(stage, block);
    const std::size_t rank = context_.value(ops(stage).result).type.shape.size();
    for (std::size_t i = 0; i < ops(stage).leaves.size() && holds_leaf(stage); ++i)
      load_leaf(stage, i, by_axes(ops(stage).y, rank, 0, 0, 0, 0), by_axes(ops(stage).y, rank, 1, 1, 1, p_.hidden),
                block);
  }
}

/// Applies the depthwise window to the current rows of each channel.
void ChainLowering::slide(Block& block) const {
  const ChainStageOps& own = ops(Stage::middle);
  const std::size_t rank = context_.value(own.result).type.shape.size();
  const ChainTile from = has(Stage::first) ? between_[0] : x_;
  if (!plan_.holds(Stage::middle)) load_weights(Stage::middle, block);
  program::VectorOp compute;
  compute.extents = by_axes(own.y, rank, 1, rows_, p_.columns, channels_);
  for (std::size_t axis = 0; axis < rank; ++axis)
    if (static_cast<int>(axis) == own.y.lead) compute.extents[axis] = 1;
  compute.lane_dim = lane_dim(own.y, plan_.rows, p_.columns, plan_.hidden);
  const std::vector<std::int64_t> weights = weight_strides(Stage::middle);
  View image{from.slot, 0, 0, {}}, kernel{"w1", 0, weight_offset(Stage::middle), {}}, sums{"s1", 0, 0, {}};
  const auto dims = [&](View& view, std::int64_t row, std::int64_t column, std::int64_t channel) {
    const std::vector<std::int64_t> strides = by_axes(own.y, rank, ChainStrides{row, column, channel});
    for (std::size_t axis = 0; axis < rank; ++axis) view.dims.push_back({compute.extents[axis], strides[axis]});
  };
  const ChainStrides& s = from.strides;
  dims(image, s.row * p_.row.stride, s.column * p_.column.stride, s.channel);
  dims(kernel, 0, 0, weights[at(own.out)]);
  dims(sums, sums_[1].strides.row, sums_[1].strides.column, sums_[1].strides.channel);
  program::VectorOutputSpec output;
  const auto tap = [&](std::int64_t count, std::int64_t of_image, std::int64_t of_kernel) {
    output.reduce.push_back(static_cast<int>(compute.extents.size()));
    compute.extents.push_back(count);
    image.dims.push_back({count, of_image});
    kernel.dims.push_back({count, of_kernel});
    sums.dims.push_back({count, 0});
  };
  tap(p_.row.taps, s.row * p_.row.dilation, weights[at(own.row)]);
  if (own.column >= 0) tap(p_.column.taps, s.column * p_.column.dilation, weights[at(own.column)]);
  compute.inputs = {std::move(image), std::move(kernel)};
  const DType read = has(Stage::first) ? priced(Stage::first).result : p_.x;
  compute.nodes.push_back({{.op = VectorNode::Op::input, .index = 0, .dtype = read}, 0});
  compute.nodes.push_back({{.op = VectorNode::Op::input, .index = 1, .dtype = priced(Stage::middle).weights}, 0});
  compute.nodes.push_back(
      {{.op = VectorNode::Op::function, .function = Function::multiply, .arguments = {0, 1, -1}, .dtype = DType::f32},
       0});
  output.node = 2;
  output.view = std::move(sums);
  compute.outputs.push_back(std::move(output));
  block.push_back(statement(std::move(compute)));
}

}  // namespace tilesim::lower
