// Unfolds windows of the first operand in the scratchpad: the cross-lane unit arranges them for the array's rows.
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/product/product.hpp"

namespace tilesim::lower {

void ProductLowering::emit_unfold(program::Block& block) {
  const Operand& operand = operands_[0];
  program::View in{operand.slot, 0, 0, {}}, out{unfolded_slot, 0, 0, {}};
  const std::vector<std::int64_t> strides = row_major_strides(plan_.unfolded.extents);
  for (const mapping::UnfoldedAxis& axis : mapping::unfolded_axes(problem_, nest_.unfold)) {
    const Expr size = axis_extent(axis.access);
    out.dims.push_back({size, strides[out.dims.size()]});
    in.dims.push_back({size, axis.coefficient * operand.slot_strides[axis.axis]});
  }
  block.push_back(statement(program::PermuteOp{std::move(in), std::move(out)}));
}

}  // namespace tilesim::lower
