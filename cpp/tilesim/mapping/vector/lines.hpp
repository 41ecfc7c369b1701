// Reordering of a tile's lines along an axis, by one gather per line or one gather for all lines.
#pragma once

#include <cstdint>
#include <vector>

#include "tilesim/tile/tile.hpp"

namespace tilesim::mapping {

/// Whether consecutive lines of a tile are joined into one. Positions within lines are then converted to positions in
/// the joined line, so that a single gather reorders all lines.
struct Lines {
  bool together = false;
  std::size_t first = 0;  ///< first axis of the joined lines
};
/// Lines of tiles of this size; they are joined if the latency model finds this faster.
Lines lines_of(const Shape& space, const std::vector<std::int64_t>& tiles, std::size_t axis, LatencyModel& latency);

/// A gather of `elements` single elements by 32-bit indices.
Descriptor gathered(DType dtype, std::int64_t elements);

/// Nodes that convert the input, positions in lines of `extent` elements, to positions in `before` x `extent` x `after`
/// elements. The last node is the result. Dims: before, extent, and after if it exceeds 1.
std::vector<VectorNode> places_nodes(std::int64_t before, std::int64_t extent, std::int64_t after);
Descriptor places_descriptor(std::int64_t before, std::int64_t extent, std::int64_t after);

}  // namespace tilesim::mapping
