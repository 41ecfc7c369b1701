// Borders of a divided axis that is read at shifted places: what a device needs of its neighbours' parts.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "tilesim/cluster/partition/rule.hpp"

namespace tilesim::partitioning {

/// Pieces that devices get from those `distance` behind them.
struct Hop {
  std::int64_t rows = 0;            ///< of the longest piece
  std::vector<std::int64_t> first;  ///< by receiver: where its piece begins in the sender's part; -1: it gets none
};

/// Parts of an axis with the borders that an operation reads, device by device along it. All in elements of the axis.
struct Borders {
  bool possible = false;             ///< all devices read alike, and less than a gather would bring
  std::int64_t part = 0;             ///< that a device has
  std::int64_t left = 0, right = 0;  ///< that come from before and from behind its part
  std::int64_t first = 0, step = 0;  ///< device i reads from first + i * step on
  std::int64_t length = 0;           ///< so many
  std::int64_t low = 0, high = 0;    ///< padding that the operation keeps: to begin and to end between two elements
  std::map<std::int64_t, Hop> hops;  ///< by distance, where pieces of their own lengths are fewer bytes than borders
  bool leaves = false;               ///< some device reads before the axis or behind its end
};

/// Elements that a device gets.
std::int64_t received(const Borders& borders);
/// Of a factor of `extent` elements that is divided in `parts`.
Borders borders_of(const Halo& halo, std::int64_t extent, std::int64_t parts);
/// Whether the factor may be divided in so many parts, as far as its halos are concerned.
bool halos_fit(const Rule& rule, int factor, std::int64_t parts);
/// The halo of an operand's axis, where it has one.
const Halo* find_halo(const Rule& rule, std::size_t operand, std::size_t axis);

}  // namespace tilesim::partitioning
