// Tiles whose elements change lanes between memory and scratchpad. DMA moves contiguous pieces in the order of memory;
// the cross-lane unit permutes the tile in its slot.
#pragma once

#include <string>
#include <vector>

#include "tilesim/compile/plan/plan.hpp"

namespace tilesim::lower {

/// Strides per axis of a value, of a tile that lies in its slot as memory holds it, minor axis innermost; 0 along axes
/// that the tensor does not span.
std::vector<std::int64_t> memory_strides(const Context& context, const Placement& placement, const Shape& tile);

/// The cross-lane unit waits for the slot's first piece, puts `in` where `out` says, and commits the second.
void permute_in_place(program::View in, program::View out, program::Block& block);

/// One note of the kernels that permute tiles, if any does.
void note_lane_changes(program::Program& program);

}  // namespace tilesim::lower
