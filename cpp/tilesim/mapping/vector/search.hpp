// Searches the tiles of a vector kernel, starting from given tiles.
#pragma once

#include "tilesim/mapping/vector.hpp"

namespace tilesim::mapping {

/// Like `search`, and also tries the sizes of `start`. Skips candidates that cannot be faster, beyond the walk's error,
/// than others with as few transfers.
std::vector<RankedTiles> search_from(const VectorProblem& problem, const Share& machine, std::size_t keep,
                                     const VectorTiles& start, CancelToken* cancel);

}  // namespace tilesim::mapping
