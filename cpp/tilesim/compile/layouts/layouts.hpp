// Chooses the layout of every tensor in off-chip memory, for chips that pad the two minor dimensions.
#pragma once

#include <vector>

#include "tilesim/compile/plan/plan.hpp"

namespace tilesim::lower {

/// Whether an input keeps torch's order (last axis minor): its padding must add less than a quarter. Otherwise the
/// largest dimensions become minor (PyTorch/XLA layout_manager.cpp).
bool enters_in_torch_order(const Shape& shape, const Shape& tile);

/// Gives tensors of a function without a layout their tile and order of axes. Inputs and weights follow the entry rule.
/// Tensors of convolutions prefer channels minor, and so do values aligned with them by elementwise operations, pads,
/// slices and windows; they get that order unless another one costs less in bytes and lane changes. Other temporaries
/// with padding get the densest layout, together with all values aligned with them, if that costs less in total (not if
/// `native`). With layout "given" every tensor keeps its order, the last axis minor. Adds notes on tensors padded
/// beyond twice their elements and twice their densest order.
void assign_layouts(Context& context, const std::vector<Kernel>& kernels, bool native);

}  // namespace tilesim::lower
