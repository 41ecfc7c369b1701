// Computes that move elements without arithmetic, as dims that are merged if both sides are contiguous.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tilesim/tile/tile.hpp"

namespace tilesim {

struct MoveDim { std::int64_t extent = 1, in = 0, out = 0; };  ///< steps in elements unless stated

/// A move of elements. Dims are in order of their step in the result, which is positive, from outer to inner. Dims with
/// one element, and dims that overwrite their own results (the last write counts), are omitted.
struct Move {
  std::vector<MoveDim> dims;
  std::int64_t in_first = 0, out_first = 0;  ///< offsets of the first element
  bool nothing = false;                      ///< whether an extent is 0
  bool overlaps = false;                     ///< whether elements of the result may overlap

  std::int64_t elements() const;
  /// Number of elements that are contiguous in operand and result.
  std::int64_t run() const;
};

/// Merges adjacent dims whose steps continue in operand and result.
std::vector<MoveDim> joined(const std::vector<MoveDim>& dims);

/// The move from one view to another with equal extents.
Move move_of(std::span<const ViewDim> in, std::span<const ViewDim> out);

/// Whether two views share bytes. Compares data pointers if an address is unknown.
bool share_bytes(const TileView& a, const TileView& b);

/// The descriptor of a permute for closed forms. `k`: number of elements that stay contiguous; `k_outer`: rows of the
/// squares in which narrow elements are transposed, 1: no squares; `batch`: 1 between two places, 2 in place, 0 nothing
/// moves; `lane_extent`: extent of the longest dim besides contiguous elements.
Descriptor permute_descriptor(DType dtype, const Move& move, bool in_place);

/// Work of a gather or scatter: the number of rows, and the move of a row.
struct IndexedRows {
  std::int64_t count = 0;
  Move row;
  std::optional<Combiner> combiner;  ///< set for a scatter that combines
};
/// Descriptor of `m` rows of `k` contiguous elements. `second`: type of the indices; functions: the combiner's class.
Descriptor indexed_descriptor(DType dtype, DType index, const IndexedRows& rows);

}  // namespace tilesim
