// Finds loops whose trips repeat, and the period of the repetition.
#pragma once

#include <cstdint>

#include "tilesim/engine/replay/trip.hpp"

namespace tilesim::engine::replay {

/// Addresses that differ by a multiple of these numbers are equivalent.
struct Places {
  std::int64_t burst_bytes = 1;
  std::int64_t round_bytes = 1;
};

/// A loop whose trips may be omitted.
struct Steady {
  std::int64_t trips = 0;
  std::int64_t period = 1;  ///< in trips
  bool whole = true;        ///< whether the positions in memory repeat with the period, too

  friend bool operator==(const Steady&, const Steady&) = default;
};

/// Whether all trips between the first and the last ones are equal: the loop index determines no length of an inner
/// loop and no values that an expression reads, and conditions and extents do not change between them.
bool steady(const Trip& trip);

/// Number of trips after which positions within bursts, layout tiles and channels repeat. A period above 64 trips is
/// ignored, and `whole` is then false.
Steady repetition(const Trip& trip, const Places& places);

}  // namespace tilesim::engine::replay
