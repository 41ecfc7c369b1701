// Reordering of the lines of a tile along an axis: gathered one by one, or many at once.
#pragma once

#include <cstdint>
#include <vector>

#include "tilesim/tile/tile.hpp"

namespace tilesim::mapping {

/// Lines that lie one behind the other in a tile are as one line whose places count from its begin: one gather takes
/// them all, once places of elements in their lines have become those.
struct Lines {
  bool together = false;
  std::size_t first = 0;  ///< those of the axes from here on
};
/// Of tiles of this size. Together where that takes less, by the model.
Lines lines_of(const Shape& space, const std::vector<std::int64_t>& tiles, std::size_t axis, LatencyModel& latency);

/// A gather of so many single elements by indices of 32 bits.
Descriptor gathered(DType dtype, std::int64_t elements);

/// Nodes that make places in lines of `extent`, the input, places among all of `before` x `extent` x `after` elements;
/// the last gives them. Dims: before, extent, and after where that is more than 1.
std::vector<VectorNode> places_nodes(std::int64_t before, std::int64_t extent, std::int64_t after);
Descriptor places_descriptor(std::int64_t before, std::int64_t extent, std::int64_t after);

}  // namespace tilesim::mapping
