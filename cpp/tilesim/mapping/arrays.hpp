// Work of a core's units for one tile of a product: how arrays share it, and how long they are busy.
#pragma once

#include <cstdint>
#include <vector>

#include "tilesim/mapping/nest.hpp"
#include "tilesim/tile/compute.hpp"

namespace tilesim::mapping {

/// Dims of a product's array computes, as in its program; `order`: the problem's dims in that order.
struct ArrayDims : ProductDims { std::vector<int> order; };
ArrayDims array_dims(const Problem& problem, const Nest& nest, const Share& machine);

/// Contracted dims of a product on the vector unit: those that one compute sums, and those that are looped over.
struct VectorTaps { std::vector<int> summed, looped; };
VectorTaps vector_taps(const Problem& problem, const Nest& nest);

/// Dims of a tile split into parts, one array per combination of parts; the last cut varies fastest.
struct ArrayGrid {
  struct Cut {
    int dim = -1;
    std::int64_t parts = 1, chunk = 0;  ///< elements per part; the last may have fewer, or none
  };
  std::vector<Cut> cuts;
  std::int64_t used() const;  ///< number of busy arrays
  /// Index of the part of a cut that an array computes.
  std::int64_t part(std::size_t cut, std::int64_t array) const;
  /// Largest extent of an array's part along a dim.
  std::int64_t largest(int dim, std::int64_t extent) const;
};

/// The work of a nest's tiles on the units: the same for full and ragged tiles.
struct TileWork {
  ArrayDims dims;           ///< for computes on arrays
  ArrayGrid grid;           ///< without cuts on the vector unit
  VectorTaps taps;          ///< contracted dims on the vector unit
  int lane = -1;            ///< vector unit: lane dim
  VectorWork multiplied;    ///< vector unit: work per tap
  std::int64_t unfold = 0;  ///< contracted dims that the cross-lane unit unfolds
};
/// The work of the nest's tiles, with the grid on which the arrays finish a full tile (or piece) soonest; ties go to
/// fewer arrays. The grid splits rows if that is worth loading their weights several times. Few columns stream past
/// stationary rows, if memory leaves lanes free.
TileWork tile_work(const Problem& problem, const Nest& nest, const Share& machine, LatencyModel& latency);
/// The axis of the result along the lanes when the vector unit finishes tiles: the axis along which the vector unit or
/// the array's columns computed them; -1: the result has no axes.
int lane_axis(const Problem& problem, const TileWork& work);

/// Cycles of a tile with these extents that follows another one, for the array with most work. `adds`: accumulates into
/// sums of an earlier step of the contraction.
struct TileCycles {
  std::int64_t busy = 0;
  std::int64_t first = 0;      ///< added if loading the stationary operand stops streaming
  std::int64_t drain = 0;      ///< cycles from then until the last result
  int kept = -1;               ///< operand that is stationary and fills the array once
  std::int64_t unfolding = 0;  ///< cycles of the cross-lane unit before the tile
};
/// `busy` of `tile_cycles`, at less expense.
std::int64_t tile_busy(const Problem& problem, const TileWork& work, const std::vector<std::int64_t>& tile,
                       const Share& machine, LatencyModel& latency, bool adds);
TileCycles tile_cycles(const Problem& problem, const TileWork& work, const std::vector<std::int64_t>& tile,
                       const Share& machine, LatencyModel& latency, bool adds);

}  // namespace tilesim::mapping
