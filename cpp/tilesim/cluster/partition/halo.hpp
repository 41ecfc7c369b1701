// Halo exchange of a sharded axis that is read at shifted positions: which elements a device needs from adjacent parts.
#pragma once

#include <cstdint>
#include <vector>

#include "tilesim/cluster/partition/rule.hpp"

namespace tilesim::partitioning {

/// Elements `from` to `to` of an axis of `source`, which a device wants from `place` on.
struct Need {
  std::size_t source = 0;
  std::int64_t from = 0, to = 0, place = 0;
};

/// What needs are taken of: parts of a divided axis, or all of an axis that each device has.
struct Source {
  std::int64_t part = 1;  ///< elements that a device has
  bool divided = true;
};

/// Pieces that are sent together: no device sends or gets two of them.
struct Hop {
  std::int64_t rows = 0;            ///< of the longest piece
  std::vector<std::int64_t> from;   ///< by receiver: who sends; -1: it gets none
  std::vector<std::int64_t> first;  ///< by sender: where its piece begins in its part; -1: it sends none
  std::vector<std::size_t> source;  ///< by sender: of which its piece is a part
};

/// Elements of a tensor that a device has or gets: sources first, then the pieces of hops.
struct Segment {
  std::size_t tensor = 0;
  std::int64_t start = 0, place = 0, rows = 0;
  friend bool operator==(const Segment&, const Segment&) = default;
};

struct Route {
  std::vector<Hop> hops;
  std::vector<std::vector<Segment>> segments;  ///< by device, in the order of their places
};

/// Of what each device needs (by device): pieces of others in as few hops as may be, the longest ones together.
Route route(const std::vector<Source>& sources, const std::vector<std::vector<Need>>& needs);

/// Parts of an axis with the borders that an operation reads, device by device along it. All in elements of the axis.
struct Borders {
  bool possible = false;             ///< all devices read alike, and less than a gather would bring
  std::int64_t part = 0;             ///< that a device has
  std::int64_t left = 0, right = 0;  ///< that come from before and from behind its part
  std::int64_t first = 0, step = 0;  ///< device i reads from first + i * step on
  std::int64_t length = 0;           ///< so many
  std::int64_t low = 0, high = 0;    ///< padding that the operation keeps: to begin and to end between two elements
  Route route{};                     ///< where pieces of uneven length have fewer elements than borders
  bool leaves = false;               ///< some device reads before the axis or behind its end
};

/// Elements that a device gets.
std::int64_t received(const Borders& borders);
std::int64_t received(const Route& route);
/// Of a factor of `extent` elements that is divided in `parts`.
Borders borders_of(const Halo& halo, std::int64_t extent, std::int64_t parts);
/// Of what is put together along a factor that is divided in `parts`: who needs what of the operands' parts. Sources
/// are the operands, in their order.
Route route_of(const Join& join, std::int64_t parts);
/// Whether the factor may be divided in so many parts, as far as its halos are concerned.
bool halos_fit(const Rule& rule, int factor, std::int64_t parts);
/// The halo of an operand's axis, where it has one.
const Halo* find_halo(const Rule& rule, std::size_t operand, std::size_t axis);

}  // namespace tilesim::partitioning
