// How the arrays of a core share one tile of a product, and how long they are busy with it.
#pragma once

#include <cstdint>
#include <vector>

#include "tilesim/mapping/nest.hpp"
#include "tilesim/tile/tile.hpp"

namespace tilesim::mapping {

/// Dims of a tile cut into parts, one array per combination of parts: the last cut varies fastest.
struct ArrayGrid {
  struct Cut {
    int dim = -1;
    std::int64_t parts = 1, chunk = 0;  ///< chunk: elements of each part; the last one may have fewer, or none
  };
  std::vector<Cut> cuts;
  std::int64_t used() const;  ///< arrays at work
  /// Which part of a cut an array has.
  std::int64_t part(std::size_t cut, std::int64_t array) const;
  /// Of the array that has most.
  std::int64_t largest(int dim, std::int64_t extent) const;
};

/// Of the row dims, of which there must be one, the innermost for the arrays: the one that lies over the sublanes in
/// memory, where registers of several sublanes enter whole.
int sublane_dim(const Problem& problem);

/// What one array computes of a tile with these extents: the largest part.
Descriptor array_work(const Problem& problem, const std::vector<std::int64_t>& tile, const ArrayGrid& grid, int pack,
                      const Share& machine);

/// The grid with which the arrays finish a full tile (or piece) of the nest soonest; of equals the one of fewest
/// arrays. Rows are divided where that is worth loading their weights several times. No cuts on the vector unit.
ArrayGrid array_grid(const Problem& problem, const Nest& nest, const Share& machine, ClosedForm& latency);

}  // namespace tilesim::mapping
