// The plan of one step of a movement kernel under its tiles. It is decided once; statements follow from it.
#pragma once

#include <cstdint>
#include <vector>

#include "tilesim/mapping/slot_ring.hpp"
#include "tilesim/mapping/vector.hpp"

namespace tilesim::mapping {

/// Tiles are loaded one by one from the first operand's tensor and stored to the second's.
struct MovePlan {
  struct Loop {
    std::size_t axis = 0;
    std::int64_t trips = 1;
  };
  Shape tiles;                    ///< no larger than the space
  std::vector<Loop> loops;        ///< that turn more than once
  std::vector<SlotRing> buffers;  ///< where tiles arrive and, where types differ, where they are converted to
  bool permuted = false;          ///< between load and use, by the cross-lane unit, where they arrived
  std::int64_t pieces() const { return permuted ? 2 : 1; }  ///< commits until a tile may be used
};
/// Loops over tiles of a space, outer to inner.
std::vector<MovePlan::Loop> tile_loops(const Shape& space, const Shape& tiles);
/// Of a step with one load and one store, in this order.
MovePlan plan_move(const VectorProblem& problem, const VectorTiles& tiles);

}  // namespace tilesim::mapping
