// The work of a core's units for one tile of a product: how arrays share the tile, and how long they are busy.
#pragma once

#include <cstdint>
#include <vector>

#include "tilesim/mapping/nest.hpp"
#include "tilesim/tile/compute.hpp"

namespace tilesim::mapping {

/// Dims of a product's array computes in program order; `order`: the corresponding dims of the problem.
struct ArrayDims : ProductDims { std::vector<int> order; };
ArrayDims array_dims(const Problem& problem, const Nest& nest, const Share& machine);

/// Contracted dims of a product on the vector unit: dims that a single compute sums, and dims with a loop.
struct VectorTaps { std::vector<int> summed, looped; };
VectorTaps vector_taps(const Problem& problem, const Nest& nest);

/// Splits dims of a tile into parts, one array per combination of parts. The part of the last cut varies fastest.
struct ArrayGrid {
  struct Cut {
    int dim = -1;
    std::int64_t parts = 1, chunk = 0;  ///< elements per part; the last part may have fewer or none
  };
  std::vector<Cut> cuts;
  std::int64_t used() const;  ///< number of arrays with work
  /// Index of the part of a cut that an array computes.
  std::int64_t part(std::size_t cut, std::int64_t array) const;
  /// Largest extent along a dim of an array's part.
  std::int64_t largest(int dim, std::int64_t extent) const;
};

/// Work of a nest's tiles on the units, which is the same for full and partial tiles.
struct TileWork {
  ArrayDims dims;           ///< computes on arrays
  ArrayGrid grid;           ///< no cuts on the vector unit
  VectorTaps taps;          ///< contracted dims on the vector unit
  int lane = -1;            ///< vector unit: lane dim
  VectorWork multiplied;    ///< vector unit: work per tap
  std::int64_t unfold = 0;  ///< contracted dims that the cross-lane unit unfolds
};
/// The work of the nest's tiles, with the grid for which the arrays finish a full tile (or piece) first; ties prefer
/// fewer arrays. The grid splits rows if that saves more time than loading their weights several times costs. If
/// columns are few and the layout has no tiles, rows are stationary and columns stream.
TileWork tile_work(const Problem& problem, const Nest& nest, const Share& machine, LatencyModel& latency);
/// The axis of the result that is along the lanes when the vector unit processes finished tiles: the axis along the
/// lanes, or the array's columns, in the compute. -1: the result has no axes.
int lane_axis(const Problem& problem, const TileWork& work);

/// Cycles of a tile with these extents that follows another tile, for the array with the most work. `adds`: the tile
/// adds to sums of an earlier contraction step.
struct TileCycles {
  std::int64_t busy = 0;
  std::int64_t first = 0;      ///< added if loading the stationary operand interrupts streaming
  std::int64_t drain = 0;      ///< cycles after that until the last result
  int kept = -1;               ///< operand that is stationary and fits the array at once
  std::int64_t unfolding = 0;  ///< cycles of the cross-lane unit before the tile
};
/// `busy` of `tile_cycles`, computed faster.
std::int64_t tile_busy(const Problem& problem, const TileWork& work, const std::vector<std::int64_t>& tile,
                       const Share& machine, LatencyModel& latency, bool adds);
TileCycles tile_cycles(const Problem& problem, const TileWork& work, const std::vector<std::int64_t>& tile,
                       const Share& machine, LatencyModel& latency, bool adds);

}  // namespace tilesim::mapping
