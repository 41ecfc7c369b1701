// Times of the tiles of a sparse product that run one after another on one core.
#pragma once

#include <cstdint>
#include <vector>

#include "tilesim/tile/sparse/core.hpp"

namespace tilesim::sparse {

/// The nonzero pattern of a matrix in the caller's memory. Strides in elements; if both are 0, all elements are equal.
struct PatternView {
  const bool* data = nullptr;
  std::int64_t rows = 0, columns = 0, row_stride = 0, column_stride = 1;
};

struct TileSizes { std::int64_t m = 1, n = 1, k = 1; };

/// `cycles` and `products` are arrays [tiles of m, tiles of n, tiles of k].
struct TileTimes {
  std::int64_t tiles[3] = {0, 0, 0};
  std::vector<std::int64_t> cycles, products;
};

/// Each tile takes sparse_time, rounded up to cycles. Pairs of tiles without zeros are computed once per size.
TileTimes tile_times(const SparseCore& core, const PatternView& a, const PatternView& b, const TileSizes& sizes,
                     bool hold_b);

}  // namespace tilesim::sparse
