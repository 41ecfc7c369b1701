// Chooses the layout of every tensor in off-chip memory, for chips that pad the two minor axes.
#pragma once

#include <vector>

#include "tilesim/compile/plan/plan.hpp"

namespace tilesim::lower {

/// Whether an input keeps torch's order (last axis minor), which it does if padding adds less than a quarter. Otherwise
/// the largest axes become minor (PyTorch/XLA layout_manager.cpp).
bool enters_in_torch_order(const Shape& shape, const Shape& tile);

/// Sets tile and order of axes of tensors without a layout. Inputs and weights follow the rule above. Tensors of
/// convolutions prefer channels minor, and so do values that elementwise operations, pads, slices and windows align
/// with them; they get this order unless another order costs less in bytes and lane changes. Other temporaries with
/// padding get the densest layout, together with all aligned values, if the total cost falls (not if `native`). With
/// layout "given", every tensor keeps its order, last axis minor. Adds notes on tensors whose padded size exceeds twice
/// their elements and twice their densest order.
void assign_layouts(Context& context, const std::vector<Kernel>& kernels, bool native);

}  // namespace tilesim::lower
