// A vector kernel as a mapping problem, and the tiles that it gets.
#include <algorithm>

#include "tilesim/base/index.hpp"
#include "tilesim/compile/lanes.hpp"
#include "tilesim/compile/tiling.hpp"
#include "tilesim/compile/vector.hpp"

namespace tilesim::lower {

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
void VectorLowering::permute(const Held& held, bool loaded, program::Block& block) const {
  program::View memory{held.slot, 0, 0, {}}, tile{held.slot, 0, 0, {}};
  for (std::size_t axis = 0; axis < space_.size(); ++axis) {
    const bool spread = loaded && static_cast<int>(axis) == lane_ && !held.spans[axis];
    const Expr all = held.spans[axis] ? extent(axis)
                     : spread         ? min(Expr(context_.machine.core.vector.lanes), extent(axis))
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
  problem.reductions = static_cast<std::int64_t>(reduces_.size());
  return problem;
}

}  // namespace tilesim::lower
