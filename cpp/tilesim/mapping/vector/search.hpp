// Searches the tiles of a vector kernel, from given tiles on.
#pragma once

#include "tilesim/mapping/vector.hpp"

namespace tilesim::mapping {

/// Like `search`, and also tries the sizes of `start`. Skips tiles with as few transfers as others that cannot be
/// faster by more than the walk's error.
std::vector<RankedTiles> search_from(const VectorProblem& problem, const Share& machine, std::size_t keep,
                                     const VectorTiles& start, CancelToken* cancel);

}  // namespace tilesim::mapping
