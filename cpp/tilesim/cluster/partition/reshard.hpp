// How a tensor gets from one layout to another: the moves, and the bytes that they send.
#pragma once

#include <vector>

#include "tilesim/cluster/partition/layout.hpp"

namespace tilesim::partitioning {

struct Move {
  enum class Sort : std::uint8_t { pad, cut, slice, all_gather, all_to_all, permute, all_reduce, reduce_scatter };
  Sort sort = Sort::slice;
  int axis = -1;       ///< that is padded, cut, divided (slice, scatter, target of all_to_all) or put together
  int from_axis = -1;  ///< all_to_all: that is put together
  Atoms atoms{};       ///< of the group
  Layout before{}, after{};
  std::int64_t extent = 0;  ///< pad, cut: of the local axis afterwards
  double bytes = 0;         ///< sent by a device
  bool settled = false;     ///< after it the tensor is padded just as its layout says
};

/// Moves from `from` to `to`, which has no partial results.
std::vector<Move> moves(const Grid& grid, const TensorType& type, const Layout& from, const Layout& to);
double wire_bytes(const std::vector<Move>& moves);
/// Source and target device of every pair of a permutation of whole parts.
std::vector<std::int64_t> permute_pairs(const Grid& grid, const Layout& from, const Layout& to);

}  // namespace tilesim::partitioning
