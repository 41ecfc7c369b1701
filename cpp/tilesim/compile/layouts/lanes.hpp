// Tiles whose elements change lanes between memory and scratchpad. DMA moves contiguous runs in memory order; then the
// cross-lane unit permutes the tile in its slot.
#pragma once

#include <string>
#include <vector>

#include "tilesim/compile/plan/plan.hpp"

namespace tilesim::lower {

/// An axis of a placement in memory: its access by the value's axes, and its extent.
struct MemoryAxis {
  AxisAccess access;
  std::int64_t extent = 1;
};

/// All axes of a placement, minor first. For rows that indices select: the row, then the axes of the indices.
std::vector<MemoryAxis> memory_axes(const Context& context, const Placement& placement);

/// Strides per value axis of a tile whose slot has memory order, with the minor axis innermost; 0 along axes that the
/// tensor does not have.
std::vector<std::int64_t> memory_strides(const Context& context, const Placement& placement, const Shape& tile);

/// If kernels permute tiles, adds one note about them to the program.
void note_lane_changes(program::Program& program);

}  // namespace tilesim::lower
