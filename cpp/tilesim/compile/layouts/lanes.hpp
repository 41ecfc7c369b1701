// Tiles whose elements change lanes between memory and scratchpad. DMA moves contiguous runs in memory order; the
// cross-lane unit then permutes the tile in its slot.
#pragma once

#include <string>
#include <vector>

#include "tilesim/compile/plan/plan.hpp"

namespace tilesim::lower {

/// An axis of a placement in memory: the access by the value's axes, and the extent.
struct MemoryAxis {
  AxisAccess access;
  std::int64_t extent = 1;
};

/// All axes of a placement, minor first; of rows that indices select: the row, then the axes of the indices.
std::vector<MemoryAxis> memory_axes(const Context& context, const Placement& placement);

/// Strides per value axis of a tile whose slot keeps the order of memory, minor axis innermost; 0 along axes that the
/// tensor does not span.
std::vector<std::int64_t> memory_strides(const Context& context, const Placement& placement, const Shape& tile);

/// Adds one note to the program on the kernels that permute tiles, if there are any.
void note_lane_changes(program::Program& program);

}  // namespace tilesim::lower
