// Chooses the layout of every tensor in off-chip memory, for chips that pad the two minor dimensions.
#pragma once

#include <vector>

#include "tilesim/compile/plan/plan.hpp"

namespace tilesim::lower {

/// Whether an input keeps torch's order, the last axis minor: if padding it costs less than a quarter. Otherwise its
/// largest dimensions become minor (PyTorch/XLA layout_manager.cpp).
bool enters_in_torch_order(const Shape& shape, const Shape& tile);

/// Gives the tensors of a function that are not laid out yet their tile and order of axes. Inputs and weights follow
/// the entry rule. What convolutions read and write wants channels minor, and so does what elementwise operations,
/// pads, slices and windows connect with it: it gets that order unless another one is cheaper by bytes and lane
/// changes. Other temporaries that whole tiles would pad lie as densely as these allow, with all that elementwise
/// operations connect with them, if that takes less in all (not if `native`). With layout "given" every tensor lies in
/// its own order, the last axis minor. Tensors padded beyond twice their elements and twice their densest order are
/// noted in the program.
void assign_layouts(Context& context, const std::vector<Kernel>& kernels, bool native);

}  // namespace tilesim::lower
