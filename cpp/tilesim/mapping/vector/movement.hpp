// The plan of one step of a movement kernel under its tiles. It is computed once; statements follow from it.
#pragma once

#include <cstdint>
#include <vector>

#include "tilesim/mapping/slot_ring.hpp"
#include "tilesim/mapping/vector.hpp"

namespace tilesim::mapping {

/// A plan that loads tiles one by one from the first operand's tensor and stores them to the second operand's.
struct MovePlan {
  struct Loop {
    std::size_t axis = 0;
    std::int64_t trips = 1;
  };
  Shape tiles;                    ///< at most the space
  std::vector<Loop> loops;        ///< loops with several trips
  std::vector<SlotRing> buffers;  ///< for loaded tiles and, if types differ, for converted ones
  bool permuted = false;          ///< the cross-lane unit permutes a tile in place between load and use
  std::int64_t pieces() const { return permuted ? 2 : 1; }  ///< commits before a tile may be used
};
/// Loops over tiles of a space, outer to inner.
std::vector<MovePlan::Loop> tile_loops(const Shape& space, const Shape& tiles);
/// The plan of a step with one load and one store, in this order.
MovePlan plan_move(const VectorProblem& problem, const VectorTiles& tiles);

}  // namespace tilesim::mapping
