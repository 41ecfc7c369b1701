// Visits the elements of a view one by one.
#pragma once

#include "tilesim/program/run/operation.hpp"

namespace tilesim::program {

/// Calls `visit(index in the buffer)` for each element; once for elements that a dim with stride 0 repeats.
template <class Visit>
void for_each_element(const SlotView& view, Visit visit, std::size_t dim = 0, std::int64_t offset = 0) {
  if (dim == view.dims.size()) {
    visit(view.offset + offset);
    return;
  }
  const ViewDim& d = view.dims[dim];
  const std::int64_t steps = d.stride == 0 ? std::min<std::int64_t>(1, d.extent) : d.extent;
  for (std::int64_t i = 0; i < steps; ++i) for_each_element(view, visit, dim + 1, offset + i * d.stride);
}

}  // namespace tilesim::program
