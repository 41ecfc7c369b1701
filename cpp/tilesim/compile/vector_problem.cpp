// A vector kernel as a mapping problem, and the tiles that it gets.
#include <algorithm>

#include "tilesim/compile/tiling.hpp"
#include "tilesim/compile/vector.hpp"

namespace tilesim::lower {

namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

}  // namespace

/// The tiles to use, with those of make_tiles as the usual ones.
void VectorLowering::choose() {
  const int last = static_cast<int>(space_.size()) - 1;
  const mapping::VectorTiles chosen = vector_tiles(context_, kernel_, problem(), {tiles_, std::max(last, 0), 2});
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
