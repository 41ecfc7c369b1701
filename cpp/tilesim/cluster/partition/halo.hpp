// Halo exchange of a sharded axis that is read at shifted positions: which elements a device needs from adjacent parts.
#pragma once

#include <cstdint>
#include <vector>

#include "tilesim/cluster/partition/rule.hpp"

namespace tilesim::partitioning {

/// Elements `from` to `to` of an axis of `source`, which a device needs from `place` on.
struct Need {
  std::size_t source = 0;
  std::int64_t from = 0, to = 0, place = 0;
};

/// The source of needs: parts of a sharded axis, or a full axis on each device.
struct Source {
  std::int64_t part = 1;  ///< elements per device
  bool divided = true;
};

/// Pieces sent together: no device sends or receives two of them.
struct Hop {
  std::int64_t rows = 0;            ///< rows of the longest piece
  std::vector<std::int64_t> from;   ///< by receiver: the sender; -1: receives none
  std::vector<std::int64_t> first;  ///< by sender: start of its piece in its part; -1: sends none
  std::vector<std::size_t> source;  ///< by sender: source of its piece
};

/// Elements of a tensor that a device has or receives. Tensors: sources first, then the pieces of hops.
struct Segment {
  std::size_t tensor = 0;
  std::int64_t start = 0, place = 0, rows = 0;
  friend bool operator==(const Segment&, const Segment&) = default;
};

struct Route {
  std::vector<Hop> hops;
  std::vector<std::vector<Segment>> segments;  ///< by device, in order of their places
};

/// Routes the pieces that each device needs (by device) in as few hops as possible, the longest together.
Route route(const std::vector<Source>& sources, const std::vector<std::vector<Need>>& needs);

/// The range that an operation reads for each device's part of an axis, in elements of the axis.
struct Borders {
  bool possible = false;             ///< all devices read equal ranges, with less traffic than a gather
  std::int64_t part = 0;             ///< per device
  std::int64_t left = 0, right = 0;  ///< elements from before and from after its part
  std::int64_t first = 0, step = 0;  ///< device i reads from first + i * step on
  std::int64_t length = 0;           ///< number of elements it reads
  std::int64_t low = 0, high = 0;    ///< padding kept by the operation: before, and after between two elements
  Route route{};                     ///< used if uneven pieces have fewer elements than borders
  bool leaves = false;               ///< some device reads before or after the axis
};

/// Number of elements that a device receives.
std::int64_t received(const Borders& borders);
std::int64_t received(const Route& route);
/// Borders of a factor of `extent` elements that is split into `parts`.
Borders borders_of(const Halo& halo, std::int64_t extent, std::int64_t parts);
/// Route of a join along a factor split into `parts`: the parts of operands that each device needs. Sources are the
/// operands in order.
Route route_of(const Join& join, std::int64_t parts);
/// Whether the factor's halos allow that many parts.
bool halos_fit(const Rule& rule, int factor, std::int64_t parts);
/// The halo of an operand's axis, or null.
const Halo* find_halo(const Rule& rule, std::size_t operand, std::size_t axis);

}  // namespace tilesim::partitioning
