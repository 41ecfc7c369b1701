// Searches for the tiles of a vector kernel, starting from given tiles.
#pragma once

#include "tilesim/mapping/vector.hpp"

namespace tilesim::mapping {

/// Like `search`, but also tries the sizes of `start`. Skips a candidate that, beyond the walk's error, cannot be
/// faster than another one with as few transfers.
std::vector<RankedTiles> search_from(const VectorProblem& problem, const Share& machine, std::size_t keep,
                                     const VectorTiles& start, CancelToken* cancel);

}  // namespace tilesim::mapping
