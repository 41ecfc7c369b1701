// argmax and argmin: computes the extreme of a tile, then the smallest index with that value, and merges tiles of a
// long row. As in the reference, a NaN is an extreme and equals other NaNs, so that the first NaN wins.
#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/vector/tiling.hpp"
#include "tilesim/compile/vector/vector.hpp"

namespace tilesim::lower {

using program::Block;
using program::View;

namespace {

constexpr double beyond = 9.0e18;  // larger than any index

/// Nodes of one compute.
struct Nodes {
  std::vector<program::VectorNodeSpec>& nodes;
  int input(program::VectorOp& compute, View view, DType dtype) {
    compute.inputs.push_back(std::move(view));
    return add_node(
        nodes, {.op = VectorNode::Op::input, .index = static_cast<int>(compute.inputs.size()) - 1, .dtype = dtype});
  }
  int apply(Function function, int a, int b = -1, int c = -1, DType dtype = DType::boolean) {
    return add_node(nodes,
                    {.op = VectorNode::Op::function, .function = function, .arguments = {a, b, c}, .dtype = dtype});
  }
  int constant(double value, DType dtype = DType::i64) {
    return add_node(nodes, {.op = VectorNode::Op::constant, .number = value, .dtype = dtype});
  }
  /// x == y, or both are NaN.
  int same(int x, int y, bool floating) {
    const int equal = apply(Function::equal, x, y);
    if (!floating) return equal;
    return apply(Function::logical_or, equal,
                 apply(Function::logical_and, apply(Function::is_nan, x), apply(Function::is_nan, y)));
  }
};

}  // namespace

/// Row-major position in the row, over all reduced axes; `streamed`: adds the tile's start.
int VectorLowering::flat_index(std::vector<program::VectorNodeSpec>& nodes, bool streamed) const {
  Nodes n{nodes};
  int sum = -1;
  std::int64_t stride = 1;
  Expr base = 0;
  for (std::size_t axis = space_.size(); axis-- > 0;) {
    if (!reduced_[axis]) continue;
    int index = add_node(n.nodes, {.op = VectorNode::Op::iota, .index = static_cast<int>(axis), .dtype = DType::i64});
    if (stride != 1)
      index = n.apply(Function::multiply, index, n.constant(static_cast<double>(stride)), -1, DType::i64);
    sum = sum < 0 ? index : n.apply(Function::add, sum, index, -1, DType::i64);
    base = base + start(axis) * Expr(stride);
    stride *= space_[axis];
  }
  if (sum < 0) return n.constant(0);
  if (!streamed) return sum;
  n.nodes.push_back({{.op = VectorNode::Op::scalar, .dtype = DType::i64}, base});
  return n.apply(Function::add, sum, static_cast<int>(n.nodes.size()) - 1, -1, DType::i64);
}

/// The index where x equals the tile's extreme; elsewhere a number beyond all indices.
int VectorLowering::where_node(std::vector<program::VectorNodeSpec>& nodes, int x, int best, bool streamed) const {
  Nodes n{nodes};
  const DType dtype = context_.value(op(reduces_[0]).operands[0]).type.dtype;
  const int same = n.same(x, best, is_float(dtype));
  const int index = flat_index(nodes, streamed);
  return n.apply(Function::select, same, index, n.constant(beyond), DType::i64);
}

/// Takes the tile's extreme if it beats the row's, or equals it at a smaller index: tiles of several axes are not in
/// order of index. Inputs: extreme and index of the tile, and of the row.
std::array<int, 2> VectorLowering::merged_nodes(std::vector<program::VectorNodeSpec>& nodes,
                                                const std::array<int, 4>& inputs) const {
  Nodes n{nodes};
  const auto [value, index, best, found] = inputs;
  const Op& reduce = op(reduces_[0]);
  const DType dtype = context_.value(reduce.operands[0]).type.dtype;
  const bool largest = reduce.attributes.text("combiner") == "argmax", floating = is_float(dtype);
  int beats = n.apply(largest ? Function::greater : Function::less, value, best);
  if (floating)
    beats = n.apply(Function::logical_or, beats,
                    n.apply(Function::logical_and, n.apply(Function::is_nan, value),
                            n.apply(Function::logical_not, n.apply(Function::is_nan, best))));
  const int earlier =
      n.apply(Function::logical_and, n.same(value, best, floating), n.apply(Function::less, index, found));
  const int take = n.apply(Function::logical_or, beats, earlier);
  return {n.apply(Function::select, take, value, best, sum_dtype(dtype)),
          n.apply(Function::select, take, index, found, DType::i64)};
}

void VectorLowering::add_arg_stages() {
  using Rows = mapping::VectorStage::Rows;
  const ValueId operand = op(reduces_[0]).operands[0];
  const bool largest = op(reduces_[0]).attributes.text("combiner") == "argmax";
  mapping::VectorStage extreme = stage({operand}, {},
                                       {{0, dtype_of_input(static_cast<int>(kernel_.inputs.size())), reduced_bits(),
                                         largest ? Combiner::maximum : Combiner::minimum, false}});
  ++extreme.functions[0];
  extreme.reductions = 1;
  const auto inputs = static_cast<int>(kernel_.inputs.size());
  if (!extreme.dtype) extreme.dtype = dtype_of_input(inputs);
  for (const bool streamed : {false, true}) {
    DagBuilder dag(context_);
    for (std::size_t axis = 0; axis < space_.size(); ++axis) {
      dag.axis_dim.push_back(static_cast<int>(axis));
      dag.axis_start.push_back(start(axis));
    }
    for (int i = 0; i < inputs; ++i) dag.bind_input(kernel_.inputs[at(i)], i);
    const int x = dag.node_of(operand, ops_);
    const int best = add_node(dag.nodes(), {.op = VectorNode::Op::input, .index = inputs});
    const int root = where_node(dag.nodes(), x, best, streamed);
    mapping::VectorStage where = work_of(dag.nodes(), {root});
    const DType place = streamed ? DType::i64 : problem_.operands[at(inputs)].dtype;
    where.pattern = pattern_of(dag.nodes(), {{root, place, reduced_bits(), Combiner::minimum, false}});
    ++where.functions[0];
    where.reductions = 1;
    where.loads = extreme.loads;
    where.rows = streamed ? Rows::streamed : Rows::whole;
    if (!streamed) where.stores = {inputs};
    if (!streamed) add_stage(extreme, 0);
    add_stage(std::move(where), 0);
  }
  std::vector<program::VectorNodeSpec> nodes;
  std::array<int, 4> all{};
  for (int i = 0; i < 4; ++i) all[at(i)] = add_node(nodes, {.op = VectorNode::Op::input, .index = inputs + i});
  const std::array<int, 2> merged = merged_nodes(nodes, all);
  mapping::VectorStage merge = work_of(nodes, {merged[0], merged[1]}), last;
  merge.first.emplace();
  merge.points = last.points = true;
  merge.rows = last.rows = Rows::streamed;
  last.dtype = DType::i64;
  last.pass = 0;
  last.stores = {inputs};
  add_stage(std::move(merge), 0);
  add_stage(std::move(last), 0);
}

/// Computes the tile's extremes into slot "best", and their indices into "found", or into the output of whole rows.
void VectorLowering::arg_of_tile(Block& block) const {
  const Op& reduce = op(reduces_[0]);
  const bool largest = reduce.attributes.text("combiner") == "argmax";
  const DType dtype = context_.value(reduce.operands[0]).type.dtype;
  Compute first = begin(false, {});
  program::VectorOutputSpec extreme;
  extreme.node = first.dag.node_of(reduce.operands[0], ops_);
  extreme.view = view(sums_[0]);
  extreme.reduce = reduced_dims();
  extreme.combiner = largest ? Combiner::maximum : Combiner::minimum;
  first.op.outputs.push_back(extreme);
  finish(first);
  block.push_back(statement(std::move(first.op)));
  Compute second = begin(false, {});
  Nodes n{second.dag.nodes()};
  const int x = second.dag.node_of(reduce.operands[0], ops_);
  const int best = n.input(second.op, view(sums_[0]), sum_dtype(dtype));
  program::VectorOutputSpec output;
  output.node = where_node(n.nodes, x, best, streamed_);
  output.reduce = reduced_dims();
  output.combiner = Combiner::minimum;
  const Held& target = streamed_ ? sums_[1] : outputs_[0];
  output.view = view(target);
  second.op.outputs.push_back(output);
  if (!streamed_) return store_outputs(second, {&outputs_[0]}, block);
  finish(second);
  block.push_back(statement(std::move(second.op)));
}

void VectorLowering::merge_arg(Block& block) const {
  Compute merge = begin(true, {}), copy = begin(true, {});
  merge.op.inputs.clear();
  merge.dag.nodes().clear();
  copy.dag.nodes().clear();
  copy.op.inputs = {view(sums_[0], true), view(sums_[1], true)};
  Nodes n{merge.dag.nodes()};
  std::array<int, 4> inputs{};
  for (std::size_t i = 0; i < 4; ++i)
    inputs[i] = n.input(merge.op, view(sums_[i], true), problem_.operands[sums_[i].operand].dtype);
  const std::array<int, 2> nodes = merged_nodes(n.nodes, inputs);
  for (int i = 0; i < 2; ++i) {
    const DType dtype = problem_.operands[sums_[at(i)].operand].dtype;
    add_node(copy.dag.nodes(), {.op = VectorNode::Op::input, .index = i, .dtype = dtype});
    copy.op.outputs.push_back({i, view(sums_[at(2 + i)], true), {}, Combiner::add, 0});
    merge.op.outputs.push_back({nodes[at(i)], view(sums_[at(2 + i)], true), {}, Combiner::add, 0});
  }
  finish(merge);
  finish(copy);
  program::If first{equal(tiles_before(), Expr(0)), {}, {}};
  first.then.push_back(statement(std::move(copy.op)));
  first.otherwise.push_back(statement(std::move(merge.op)));
  block.push_back(statement(std::move(first)));
}

Block VectorLowering::arg_body() {
  const ValueId result = op(reduces_[0]).results[0];
  std::size_t operand = kernel_.inputs.size() + kernel_.outputs.size();
  for (const char* name : {"best", "found", "row_best", "row_found"}) {
    if (plan_.buffers[operand].there) sums_.push_back(hold(result, operand, name));
    if (sums_.size() > 2) rings_.back().carried = "i" + std::to_string(plan_.columns.front().axis);
    ++operand;
  }
  Block body;
  load_inputs(plan_.phases[0].loads, body);
  arg_of_tile(body);
  if (!streamed_) return body;
  merge_arg(body);
  body = wrap_loops(plan_.columns, "i", std::move(body));
  Compute last = begin(true, {});
  last.op.inputs = {view(sums_[3], true)};
  last.dag.nodes().clear();
  add_node(last.dag.nodes(), {.op = VectorNode::Op::input, .index = 0, .dtype = DType::i64});
  View out = view(outputs_[0], true);
  last.op.outputs.push_back({0, out, {}, Combiner::add, 0});
  store_outputs(last, {&outputs_[0]}, body);
  return body;
}

}  // namespace tilesim::lower
