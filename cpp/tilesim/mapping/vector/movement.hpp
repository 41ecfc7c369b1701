// The plan of a step of a movement kernel for its tiles, from which statements follow.
#pragma once

#include <cstdint>
#include <vector>

#include "tilesim/mapping/slot_ring.hpp"
#include "tilesim/mapping/vector.hpp"

namespace tilesim::mapping {

/// A plan that loads tiles one by one from the first operand's tensor and stores them to the second operand's tensor.
struct MovePlan {
  struct Loop {
    std::size_t axis = 0;
    std::int64_t trips = 1;
  };
  Shape tiles;                    ///< at most the space
  std::vector<Loop> loops;        ///< loops with several trips
  std::vector<SlotRing> buffers;  ///< of loaded tiles and, if types differ, of converted tiles
  bool permuted = false;          ///< the cross-lane unit permutes a loaded tile in place before its use
  std::int64_t pieces() const { return permuted ? 2 : 1; }  ///< number of commits until a tile may be used
};
/// Loops over the tiles of a space, outer to inner.
std::vector<MovePlan::Loop> tile_loops(const Shape& space, const Shape& tiles);
/// The plan of a step whose operands are a load and a store.
MovePlan plan_move(const VectorProblem& problem, const VectorTiles& tiles);

}  // namespace tilesim::mapping
