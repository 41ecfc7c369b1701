// Computes that move elements without arithmetic: dims in one order, merged if both sides are contiguous.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tilesim/tile/tile.hpp"

namespace tilesim {

struct MoveDim { std::int64_t extent = 1, in = 0, out = 0; };  ///< steps in elements, or in bytes where it says so

/// Dims by their steps in the result, outer to inner, which are positive: none of one element, none that writes where
/// the one before wrote (the last counts).
struct Move {
  std::vector<MoveDim> dims;
  std::int64_t in_first = 0, out_first = 0;  ///< where it begins, in elements
  bool nothing = false;                      ///< an extent is 0
  bool overlaps = false;                     ///< elements of the result may lie on each other

  std::int64_t elements() const;
  /// Elements that follow each other on both sides.
  std::int64_t run() const;
};

/// Neighbouring dims as one where both sides go on alike.
std::vector<MoveDim> joined(const std::vector<MoveDim>& dims);

/// Of views with equal extents.
Move move_of(std::span<const ViewDim> in, std::span<const ViewDim> out);

/// Whether two views share bytes; where an address is not known, by their data.
bool share_bytes(const TileView& a, const TileView& b);

/// A permute as closed forms see it: `k` neighbours stay neighbours; `k_outer` rows in the squares in which narrow
/// elements turn, 1: none; `batch` 1: from one place to another, 2: in place, 0: nothing moves; `lane_extent` is that
/// of the longest dim beside the neighbours.
Descriptor permute_descriptor(DType dtype, const Move& move, bool in_place);

/// What a gather or scatter moves: so many rows.
struct IndexedRows {
  std::int64_t count = 0;
  Move row;
  std::optional<Combiner> combiner;  ///< of a scatter
};
/// `m` rows in which `k` neighbours stay neighbours; `second` is the indices' type, a function what combines.
Descriptor indexed_descriptor(DType dtype, DType index, const IndexedRows& rows);

}  // namespace tilesim
