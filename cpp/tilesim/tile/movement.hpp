// Computes that move elements without arithmetic: dims in one order, merged if both sides are contiguous.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tilesim/tile/tile.hpp"

namespace tilesim {

struct MoveDim { std::int64_t extent = 1, in = 0, out = 0; };  ///< steps in elements, or in bytes where stated

/// Dims in order of their positive steps in the result, outer to inner, without dims of one element and without dims
/// that overwrite their own writes (the last write counts).
struct Move {
  std::vector<MoveDim> dims;
  std::int64_t in_first = 0, out_first = 0;  ///< offset of the first element
  bool nothing = false;                      ///< some extent is 0
  bool overlaps = false;                     ///< elements of the result may overlap

  std::int64_t elements() const;
  /// Number of elements that are contiguous on both sides.
  std::int64_t run() const;
};

/// Merges adjacent dims whose strides continue on both sides.
std::vector<MoveDim> joined(const std::vector<MoveDim>& dims);

/// The move between views with equal extents.
Move move_of(std::span<const ViewDim> in, std::span<const ViewDim> out);

/// Whether two views share bytes; compares their data if an address is unknown.
bool share_bytes(const TileView& a, const TileView& b);

/// The descriptor of a permute for closed forms: `k` contiguous elements stay contiguous; `k_outer`: rows of the
/// squares in which narrow elements are transposed, 1: none; `batch`: 1 between two places, 2 in place, 0 no move;
/// `lane_extent`: extent of the longest dim besides the contiguous elements.
Descriptor permute_descriptor(DType dtype, const Move& move, bool in_place);

/// Work of a gather or scatter: a number of rows.
struct IndexedRows {
  std::int64_t count = 0;
  Move row;
  std::optional<Combiner> combiner;  ///< for a scatter
};
/// `m` rows of `k` contiguous elements; `second`: type of the indices; the function class is the combiner's.
Descriptor indexed_descriptor(DType dtype, DType index, const IndexedRows& rows);

}  // namespace tilesim
