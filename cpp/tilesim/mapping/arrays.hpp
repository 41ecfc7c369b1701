// Work of a core's units for one tile of a product: how arrays share it, and how long they are busy.
#pragma once

#include <cstdint>
#include <vector>

#include "tilesim/mapping/nest.hpp"
#include "tilesim/tile/compute.hpp"

namespace tilesim::mapping {

/// Of a product's array computes as they stand in its program: problem dims, in that order.
struct ArrayDims : ProductDims { std::vector<int> order; };
ArrayDims array_dims(const Problem& problem, const Nest& nest, const Share& machine);

/// Of a product on the vector unit: contracted dims that one compute sums, and those over whose tiles a loop goes.
struct VectorTaps { std::vector<int> summed, looped; };
VectorTaps vector_taps(const Problem& problem, const Nest& nest);

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

/// What the tiles of a nest are to the units: the same for full and ragged ones.
struct TileWork {
  ArrayDims dims;           ///< of computes on arrays
  ArrayGrid grid;           ///< no cuts on the vector unit
  VectorTaps taps;          ///< on the vector unit
  int lane = -1;            ///< there
  VectorWork multiplied;    ///< there: per tap
  std::int64_t unfold = 0;  ///< contracted dims that the cross-lane unit puts side by side
};
/// With the grid with which the arrays finish a full tile (or piece) of the nest soonest; of equals the one of fewest
/// arrays. Rows are divided where that is worth loading their weights several times. Few columns stream past rows that
/// lie still, where memory leaves the lanes free.
TileWork tile_work(const Problem& problem, const Nest& nest, const Share& machine, ClosedForm& latency);
/// Axis of the result that lies over the lanes where the vector unit finishes tiles: the axis along which the vector
/// unit, or the array's columns, have computed them; -1: the result has no axes.
int lane_axis(const Problem& problem, const TileWork& work);

/// A tile with these extents on its unit, behind another one: of the array that has most. `adds`: to sums of an earlier
/// step of the contraction.
struct TileCycles {
  std::int64_t busy = 0;
  std::int64_t first = 0;      ///< more where nothing streams while what lies still in the array is loaded
  std::int64_t drain = 0;      ///< from then until the last result
  int kept = -1;               ///< operand that lies still and fills the array once
  std::int64_t unfolding = 0;  ///< of the cross-lane unit, before
};
TileCycles tile_cycles(const Problem& problem, const TileWork& work, const std::vector<std::int64_t>& tile,
                       const Share& machine, ClosedForm& latency, bool adds);

}  // namespace tilesim::mapping
