// Poses a vector kernel as a mapping problem, and applies its tiles.
#include <algorithm>

#include "tilesim/base/index.hpp"
#include "tilesim/compile/layouts/lanes.hpp"
#include "tilesim/compile/layouts/rows.hpp"
#include "tilesim/compile/vector/tiling.hpp"
#include "tilesim/compile/vector/vector.hpp"
#include "tilesim/program/vector_work.hpp"

namespace tilesim::lower {

/// Chooses the tiles, with those of make_tiles as the default.
void VectorLowering::choose() {
  make_problem();
  const mapping::VectorTiles chosen = vector_tiles(context_, kernel_, problem_, {tiles_, last_long_axis(space_), 2});
  plan_ = mapping::plan(problem_, chosen, context_.machine);
  tiles_ = chosen.tiles;
  streamed_ = plan_.streamed;
  lane_ = space_.empty() ? -1 : chosen.lane;
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

void VectorLowering::find_shuffle(Held& held) const {
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

/// Permutes a tile from memory order to its slot's order, or back before a store. A value that all lanes share is
/// spread over the lanes. `points`: outside the loops over a row's tiles, where each row has one element.
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
  block.push_back(statement(loaded ? program::PermuteOp{memory, tile} : program::PermuteOp{tile, memory}));
}

/// An input or output, by axes of the space.
mapping::VectorOperand VectorLowering::operand(ValueId value, mapping::VectorOperand::Use use) const {
  const std::size_t rank = shape(value).size();
  mapping::VectorOperand operand = placed_operand(context_, context_.placements[at(value)], rank, use);
  const std::vector<bool> spanned = spans(value);
  std::vector<int> axis_of;  // per axis of the value: axis of the space
  const bool shrunk = dropped(value);
  for (std::size_t axis = shrunk ? 0 : space_.size() - rank; axis < space_.size(); ++axis)
    if (!shrunk || !reduced_[axis]) axis_of.push_back(static_cast<int>(axis));
  for (int& axis : operand.axes) {
    if (axis >= 0) axis = axis_of[at(axis)];
    if (axis >= 0 && !spanned[at(axis)]) axis = -1;
  }
  operand.step.assign(spanned.begin(), spanned.end());
  const Placement& placement = context_.placements[at(value)];
  give_access(context_, placement, operand);
  for (AxisAccess& axis : operand.access) {
    for (AxisAccess::Term& term : axis.terms) term.dim = axis_of[at(term.dim)];
    std::erase_if(axis.terms, [&](const AxisAccess::Term& term) { return !spanned[at(term.dim)]; });
  }
  if (placement.through.empty()) return operand;
  std::vector<int> apart = rows_apart(placement);
  for (int& axis : apart) axis = axis_of[at(axis)];
  fetch_apart(context_, operand, std::move(apart));
  return operand;
}

void VectorLowering::make_problem() {
  using Use = mapping::VectorOperand::Use;
  problem_ = vector_problem(context_, kernel_, space_);
  problem_.reduced = reduced_;
  problem_.passes = std::max(1, passes());
  problem_.whole_tiles.clear();
  if (std::any_of(reduces_.begin(), reduces_.end(), [&](int i) { return is_arg(i); }))
    problem_.whole_tiles = "the position of a row's extreme is found in whole tiles";
  for (ValueId input : kernel_.inputs) problem_.operands.push_back(operand(input, Use::load));
  for (ValueId output : kernel_.outputs) problem_.operands.push_back(operand(output, Use::store));
  for (int i : reduces_) {
    const ValueId result = op(i).results[0];
    const DType held = sum_dtype(context_.value(op(i).operands[0]).type.dtype);
    problem_.operands.push_back(scratch(result, held));
    if (!is_arg(i)) continue;
    // Streamed rows: index of the tile's extreme; row's extreme and index.
    for (const DType dtype : {DType::i64, held, DType::i64}) {
      problem_.operands.push_back(scratch(result, dtype));
      problem_.operands.back().between = true;
    }
  }
  make_stages();
}

/// Type of a compute's input; the kernel's inputs come first, then the reductions' sums.
DType VectorLowering::dtype_of_input(int number) const {
  const std::size_t inputs = kernel_.inputs.size(), i = at(number);
  return problem_.operands[i < inputs ? i : i + kernel_.outputs.size()].dtype;
}

/// Reduced axes as bits, for patterns of computes.
std::uint32_t VectorLowering::reduced_bits() const {
  std::uint32_t all = 0;
  for (std::size_t axis = 0; axis < reduced_.size() && axis < most_vector_dims; ++axis)
    if (reduced_[axis]) all |= std::uint32_t{1} << axis;
  return all;
}

VectorPattern VectorLowering::pattern_of(const std::vector<program::VectorNodeSpec>& nodes,
                                         const std::vector<VectorWrite>& writes) const {
  if (space_.size() > most_vector_dims) return {};
  std::vector<VectorNode> all;
  for (const program::VectorNodeSpec& spec : nodes) all.push_back(spec.node);
  std::vector<VectorRead> reads;
  const std::size_t inputs = kernel_.inputs.size(), outputs = kernel_.outputs.size();
  for (std::size_t i = 0; i + outputs < problem_.operands.size(); ++i) {
    const mapping::VectorOperand& operand = problem_.operands[i < inputs ? i : i + outputs];
    VectorRead& read = reads.emplace_back(VectorRead{operand.dtype, 0});
    for (std::size_t axis = 0; axis < operand.step.size(); ++axis)
      if (operand.step[axis] != 0) read.dims |= std::uint32_t{1} << axis;
  }
  return tilesim::pattern_of(all, reads, writes);
}

/// The stage of the compute that produces these values.
mapping::VectorStage VectorLowering::stage(const std::vector<ValueId>& values, const std::set<int>& finished,
                                           std::vector<VectorWrite> writes) const {
  DagBuilder dag(context_);
  for (std::size_t axis = 0; axis < space_.size(); ++axis) {
    dag.axis_dim.push_back(static_cast<int>(axis));
    dag.axis_start.push_back(start(axis));
  }
  const auto inputs = static_cast<int>(kernel_.inputs.size());
  for (int i = 0; i < inputs; ++i) dag.bind_input(kernel_.inputs[at(i)], i);
  for (int i : finished) {
    const ValueId result = op(reduces_[at(i)]).results[0];
    const int sum = add_node(dag.nodes(), {.op = VectorNode::Op::input, .index = inputs + i});
    dag.bind_node(result, result_node(dag.nodes(), at(i), sum));
  }
  std::vector<int> roots;
  for (ValueId value : values) roots.push_back(dag.node_of(value, ops_));
  mapping::VectorStage result = work_of(dag.nodes(), roots);
  for (std::size_t i = 0; i < writes.size(); ++i) writes[i].node = roots[i];
  result.pattern = pattern_of(dag.nodes(), writes);
  const std::vector<ValueId> wanted = inputs_of(values);
  for (std::size_t i = 0; i < kernel_.inputs.size(); ++i)
    if (std::find(wanted.begin(), wanted.end(), kernel_.inputs[i]) != wanted.end())
      result.loads.push_back(static_cast<int>(i));
  return result;
}

/// A stage with the functions per point and the type of its first input.
mapping::VectorStage VectorLowering::work_of(const std::vector<program::VectorNodeSpec>& nodes,
                                             const std::vector<int>& roots) const {
  const std::vector<bool> needed = needed_nodes(nodes, roots);
  std::vector<program::VectorNodeSpec> kept;
  mapping::VectorStage result;
  for (std::size_t i = 0; i < needed.size(); ++i) {
    if (!needed[i]) continue;
    kept.push_back(nodes[i]);
    if (!result.dtype && nodes[i].node.op == VectorNode::Op::input) result.dtype = dtype_of_input(nodes[i].node.index);
  }
  result.functions = program::work_of(kept, -1).functions;
  return result;
}

void VectorLowering::add_stage(mapping::VectorStage stage, int reduce, std::vector<ValueId> values) {
  problem_.stages.push_back(std::move(stage));
  sources_.push_back({reduce, std::move(values)});
}

/// Adds one compute for these outputs, if there are any.
void VectorLowering::add_outputs(const std::vector<ValueId>& values, bool points, std::int64_t pass,
                                 mapping::VectorStage::Rows rows) {
  if (values.empty()) return;
  std::set<int> finished;  // reductions that the pass may read; those that it does not read cost nothing
  for (std::size_t i = 0; i < reduces_.size(); ++i)
    if (points || rows == mapping::VectorStage::Rows::whole || level_of(op(reduces_[i]).results[0]) < pass)
      finished.insert(static_cast<int>(i));
  std::vector<VectorWrite> writes;
  for (const ValueId value : values)
    for (std::size_t i = 0; i < kernel_.outputs.size(); ++i)
      if (kernel_.outputs[i] == value) writes.push_back({.dtype = problem_.operands[kernel_.inputs.size() + i].dtype});
  mapping::VectorStage outputs = stage(values, finished, writes);
  outputs.points = points;
  outputs.pass = pass;
  outputs.rows = rows;
  for (std::size_t i = 0; i < kernel_.outputs.size(); ++i)
    if (std::find(values.begin(), values.end(), kernel_.outputs[i]) != values.end())
      outputs.stores.push_back(static_cast<int>(kernel_.inputs.size() + i));
  if (!outputs.dtype) outputs.dtype = problem_.operands[at(outputs.stores[0])].dtype;
  add_stage(std::move(outputs), -1, values);
}

/// Adds the division of a mean, which follows its reduction.
void VectorLowering::add_division(std::size_t reduce) {
  mapping::VectorStage division;
  division.functions[2] = 1;
  division.points = true;
  division.pass = 0;
  division.dtype = dtype_of_input(static_cast<int>(kernel_.inputs.size() + reduce));
  std::vector<program::VectorNodeSpec> nodes;
  const auto input = static_cast<int>(kernel_.inputs.size() + reduce);
  const int sum = add_node(nodes, {.op = VectorNode::Op::input, .index = input, .dtype = *division.dtype});
  const int mean = mean_node(nodes, sum, row_count(), *division.dtype);
  division.pattern = pattern_of(nodes, {{.node = mean, .dtype = *division.dtype}});
  add_stage(std::move(division), -1);
}

/// Adds the computes on a tile, in the order in which they are emitted.
void VectorLowering::make_stages() {
  using Rows = mapping::VectorStage::Rows;
  problem_.stages.clear();
  sources_.clear();
  if (!reduces_.empty() && is_arg(reduces_[0])) return add_arg_stages();
  std::set<int> finished;
  for (std::size_t i = 0; i < reduces_.size(); ++i) {
    const Op& reduce = op(reduces_[i]);
    const std::string combiner = reduce.attributes.text("combiner");
    const DType held = dtype_of_input(static_cast<int>(kernel_.inputs.size() + i));
    for (const bool streamed : {false, true}) {  // streamed tiles accumulate
      mapping::VectorStage sums =
          stage({reduce.operands[0]}, finished,
                {{0, held, reduced_bits(), combiner == "mean" ? Combiner::add : parse_combiner(combiner), streamed}});
      ++sums.functions[combiner == "multiply" ? 1 : 0];
      sums.reductions = 1;
      sums.pass = level_of(reduce.results[0]);
      sums.rows = streamed ? Rows::streamed : Rows::whole;
      if (!sums.dtype) sums.dtype = held;
      add_stage(std::move(sums), static_cast<int>(i));
    }
    finished.insert(static_cast<int>(i));
    if (divides_rows(i)) add_division(i);
  }
  std::vector<ValueId> points, full;
  std::set<int> levels;
  for (ValueId output : kernel_.outputs) {
    const bool all = spans_rows(spans(output)) || reduces_.empty();
    (all ? full : points).push_back(output);
    if (all) levels.insert(level_of(output));
  }
  add_outputs(points, true, 0, Rows::any);
  if (levels.size() <= 1) return add_outputs(full, false, levels.empty() ? 1 : *levels.begin() + 1, Rows::any);
  add_outputs(full, false, passes(), Rows::whole);
  for (const int level : levels) {
    std::vector<ValueId> own;
    for (ValueId output : full)
      if (level_of(output) == level) own.push_back(output);
    add_outputs(own, false, level + 1, Rows::streamed);
  }
}

}  // namespace tilesim::lower
