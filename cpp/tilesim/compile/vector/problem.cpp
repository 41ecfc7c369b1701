// A vector kernel as a mapping problem, and the tiles that it gets.
#include <algorithm>

#include "tilesim/base/index.hpp"
#include "tilesim/compile/plan/lanes.hpp"
#include "tilesim/compile/vector/tiling.hpp"
#include "tilesim/compile/vector/vector.hpp"
#include "tilesim/program/vector_work.hpp"

namespace tilesim::lower {

namespace {
constexpr std::int32_t where_functions = 6;  // comparison, index and selection: where the extreme of a row lies
}

/// The tiles to use, with those of make_tiles as the usual ones.
void VectorLowering::choose() {
  const int last = static_cast<int>(space_.size()) - 1;
  problem_ = problem();
  const mapping::VectorTiles chosen = vector_tiles(context_, kernel_, problem_, {tiles_, std::max(last, 0), 2});
  chosen_ = chosen;
  if (chosen.tiles != tiles_) {
    tiles_ = chosen.tiles;
    streamed_ = false;
    for (std::size_t axis = 0; axis < space_.size(); ++axis) streamed_ |= reduced_[axis] && cut(axis);
  }
  lane_ = space_.empty() ? -1 : chosen.lane;
  depth_ = chosen.depth;
  sub_ = chosen.sub;
}

mapping::VectorOperand VectorLowering::scratch(ValueId value, DType dtype) const {
  mapping::VectorOperand operand;
  operand.use = mapping::VectorOperand::Use::scratch;
  operand.dtype = dtype;
  const std::vector<bool> spanned = spans(value);
  operand.step.assign(spanned.begin(), spanned.end());
  return operand;
}

void VectorLowering::find_shuffle(Held& held, std::size_t operand) const {
  held.shuffled = mapping::changes_lanes(problem_, problem_.operands[operand], chosen_);
  if (!held.shuffled) return;
  const std::size_t rank = shape(held.value).size();
  const bool shrunk = dropped(held.value);
  Shape own;
  std::vector<std::size_t> axes;
  for (std::size_t axis = shrunk ? 0 : space_.size() - rank; axis < space_.size(); ++axis) {
    if (shrunk && reduced_[axis]) continue;
    axes.push_back(axis);
    own.push_back(held.spans[axis] ? std::min(tiles_[axis], space_[axis]) : 1);
  }
  const std::vector<std::int64_t> strides = memory_strides(context_, context_.placements[at(held.value)], own);
  held.memory_strides.assign(space_.size(), 0);
  for (std::size_t i = 0; i < axes.size(); ++i)
    if (held.spans[axes[i]]) held.memory_strides[axes[i]] = strides[i];
}

/// From the order of memory to the tile's, or back before it is stored. What all lanes get is read once per lane.
/// `points`: outside of the loops over a row's tiles, where each row has one element.
void VectorLowering::permute(const Held& held, bool loaded, bool points, program::Block& block) const {
  program::View memory{held.slot, 0, 0, {}}, tile{held.slot, 0, 0, {}};
  for (std::size_t axis = 0; axis < space_.size(); ++axis) {
    const bool spread = loaded && static_cast<int>(axis) == lane_ && !held.spans[axis];
    const Expr all = points && reduced_[axis] ? Expr(1)
                     : held.spans[axis]       ? extent(axis)
                     : spread                 ? min(Expr(context_.machine.core.vector.lanes), extent(axis))
                                              : Expr(1);
    memory.dims.push_back({all, held.memory_strides[axis]});
    tile.dims.push_back({all, held.strides[axis]});
  }
  permute_in_place(loaded ? memory : tile, loaded ? tile : memory, block);
}

/// An input or output, by the axes of the space.
mapping::VectorOperand VectorLowering::operand(ValueId value, mapping::VectorOperand::Use use) const {
  const std::size_t rank = shape(value).size();
  mapping::VectorOperand operand = placed_operand(context_, context_.placements[at(value)], rank, use);
  const std::vector<bool> spanned = spans(value);
  std::vector<int> axis_of;  // of the space, for each axis of the value
  const bool shrunk = dropped(value);
  for (std::size_t axis = shrunk ? 0 : space_.size() - rank; axis < space_.size(); ++axis)
    if (!shrunk || !reduced_[axis]) axis_of.push_back(static_cast<int>(axis));
  for (int& axis : operand.axes) {
    if (axis >= 0) axis = axis_of[at(axis)];
    if (axis >= 0 && !spanned[at(axis)]) axis = -1;
  }
  operand.step.assign(spanned.begin(), spanned.end());
  return operand;
}

mapping::VectorProblem VectorLowering::problem() const {
  mapping::VectorProblem problem = vector_problem(context_, kernel_, space_);
  problem.reduced = reduced_;
  problem.passes = std::max(1, passes());
  problem.whole_tiles.clear();
  if (std::any_of(reduces_.begin(), reduces_.end(), [&](int i) { return is_arg(i); }))
    problem.whole_tiles = "where the extreme of a row lies is found in whole tiles";
  for (ValueId input : kernel_.inputs) problem.operands.push_back(operand(input, mapping::VectorOperand::Use::load));
  for (ValueId output : kernel_.outputs)
    problem.operands.push_back(operand(output, mapping::VectorOperand::Use::store));
  for (int i : reduces_) {
    const ValueId result = op(i).results[0];
    const DType held = sum_dtype(context_.value(op(i).operands[0]).type.dtype);
    problem.operands.push_back(scratch(result, held));
    if (!is_arg(i)) continue;
    problem.operands.push_back(scratch(result, held));  // extreme and index of the row, where tiles of it stream
    for (int index = 0; index < 2; ++index) problem.operands.push_back(scratch(result, DType::i64));
  }
  problem.stages = stages();
  return problem;
}

/// The compute that gives these values, as it is emitted.
mapping::VectorStage VectorLowering::stage(const std::vector<ValueId>& values, const std::set<int>& finished) const {
  DagBuilder dag(context_);
  for (std::size_t axis = 0; axis < space_.size(); ++axis) {
    dag.axis_dim.push_back(static_cast<int>(axis));
    dag.axis_start.push_back(start(axis));
  }
  for (std::size_t i = 0; i < kernel_.inputs.size(); ++i) dag.bind_input(kernel_.inputs[i], static_cast<int>(i));
  for (int i : finished) {
    const ValueId result = op(reduces_[at(i)]).results[0];
    const int sum = add_node(dag.nodes(), {.op = VectorNode::Op::input, .dtype = context_.value(result).type.dtype});
    dag.bind_node(result, result_node(dag.nodes(), at(i), sum));
  }
  std::vector<int> roots;
  for (ValueId value : values) roots.push_back(dag.node_of(value, ops_));
  const std::vector<bool> needed = needed_nodes(dag.nodes(), roots);
  std::vector<program::VectorNodeSpec> nodes;
  for (std::size_t i = 0; i < needed.size(); ++i)
    if (needed[i]) nodes.push_back(dag.nodes()[i]);
  mapping::VectorStage result;
  result.functions = program::work_of(nodes, -1).functions;
  const std::vector<ValueId> wanted = inputs_of(values);
  for (std::size_t i = 0; i < kernel_.inputs.size(); ++i)
    if (std::find(wanted.begin(), wanted.end(), kernel_.inputs[i]) != wanted.end())
      result.loads.push_back(static_cast<int>(i));
  return result;
}

/// The computes on a tile, in the order in which they are emitted.
std::vector<mapping::VectorStage> VectorLowering::stages() const {
  std::vector<mapping::VectorStage> stages;
  std::set<int> finished;
  for (std::size_t i = 0; i < reduces_.size(); ++i) {
    const Op& reduce = op(reduces_[i]);
    mapping::VectorStage sums = stage({reduce.operands[0]}, finished);
    ++sums.functions[reduce.attributes.text("combiner") == "multiply" ? 1 : 0];
    sums.reductions = 1;
    sums.pass = level_of(reduce.results[0]);
    stages.push_back(sums);
    finished.insert(static_cast<int>(i));
    if (!is_arg(reduces_[i])) continue;
    sums.functions[0] += where_functions;
    stages.push_back(sums);
  }
  std::vector<ValueId> points, full;
  for (ValueId output : kernel_.outputs)
    (spans_rows(spans(output)) || reduces_.empty() ? full : points).push_back(output);
  for (const auto* values : {&points, &full}) {
    if (values->empty()) continue;
    const bool arg = !reduces_.empty() && is_arg(reduces_[0]);
    mapping::VectorStage last = arg ? mapping::VectorStage{} : stage(*values, finished);
    last.points = values == &points;
    last.pass = last.points ? 0 : passes();
    for (std::size_t i = 0; i < kernel_.outputs.size(); ++i)
      if (std::find(values->begin(), values->end(), kernel_.outputs[i]) != values->end())
        last.stores.push_back(static_cast<int>(kernel_.inputs.size() + i));
    stages.push_back(std::move(last));
  }
  return stages;
}

}  // namespace tilesim::lower
