// Unfolds windows of the first operand in the scratchpad: the cross-lane unit arranges them for the array's rows.
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/product/product.hpp"

namespace tilesim::lower {

/// Queues that read an operand's loaded tiles.
std::vector<std::string> ProductLowering::readers(int index) const {
  if (index == 0 && nest_.unfold > 0) return {"cross_lane"};
  return mma_queues();
}

/// Makes the readers wait for a tile that is being loaded.
void ProductLowering::emit_arrived(int index, program::Block& block) {
  const std::string& slot = operands_[index].slot;
  for (const std::string& unit : readers(index)) block.push_back(on(unit, program::Wait{slot, 0, {}, 0, 1}));
  if (index == 0 && nest_.unfold > 0) emit_unfold(block);
}

void ProductLowering::emit_unfold(program::Block& block) {
  const Operand& operand = operands_[0];
  program::View in{operand.slot, 0, 0, {}}, out{unfolded_slot, 0, 0, {}};
  const std::vector<std::int64_t> strides = row_major_strides(plan_.unfolded.extents);
  for (const mapping::UnfoldedAxis& axis : mapping::unfolded_axes(problem_, nest_.unfold)) {
    const Expr size = axis_extent(axis.access);
    out.dims.push_back({size, strides[out.dims.size()]});
    in.dims.push_back({size, axis.coefficient * operand.slot_strides[axis.axis]});
  }
  const std::string unit = "cross_lane";
  block.push_back(on("", program::Acquire{unfolded_slot, {unit}}));
  block.push_back(on(unit, program::PermuteOp{std::move(in), std::move(out)}));
  block.push_back(on(unit, program::Commit{unfolded_slot, 0, 1}));
  block.push_back(on(unit, program::Release{operand.slot, 0}));
  for (const std::string& array : mma_queues()) block.push_back(on(array, program::Wait{unfolded_slot, 0, {}, 0, 1}));
}

}  // namespace tilesim::lower
