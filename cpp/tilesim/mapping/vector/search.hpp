// Searches the tiles of a vector kernel, from given tiles on.
#pragma once

#include "tilesim/mapping/vector.hpp"

namespace tilesim::mapping {

/// As `search`, with the sizes of `start` among those tried. Left out: those that cannot be faster by more than the
/// walk errs than others of as few transfers.
std::vector<RankedTiles> search_from(const VectorProblem& problem, const Share& machine, std::size_t keep,
                                     const VectorTiles& start, CancelToken* cancel);

}  // namespace tilesim::mapping
