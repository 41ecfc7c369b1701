// Finds loops whose trips repeat, and after how many trips.
#pragma once

#include <cstdint>

#include "tilesim/engine/replay/trip.hpp"

namespace tilesim::engine::replay {

/// Address moduli that make two addresses equivalent: bursts, and the bytes after which the channel order repeats.
struct Places {
  std::int64_t burst_bytes = 1;
  std::int64_t round_bytes = 1;
};

/// A loop whose trips may be omitted.
struct Steady {
  std::int64_t trips = 0;
  std::int64_t period = 1;  ///< period in trips
  bool whole = true;        ///< whether all memory positions repeat with the period

  friend bool operator==(const Steady&, const Steady&) = default;
};

/// Whether all trips but the first and last ones are equal: no inner loop grows with the index, no expression reads
/// other values with it, no condition or extent changes in the middle.
bool steady(const Trip& trip);

/// The number of trips after which positions within bursts, layout tiles and channels repeat. Positions with a period
/// above 64 trips are ignored, and `whole` is then false.
Steady repetition(const Trip& trip, const Places& places);

}  // namespace tilesim::engine::replay
