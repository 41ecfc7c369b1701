// Finds loops whose trips repeat, and their periods.
#pragma once

#include <cstdint>

#include "tilesim/engine/replay/trip.hpp"

namespace tilesim::engine::replay {

/// Moduli of equivalent addresses: bytes of a burst, and bytes after which the channel order repeats.
struct Places {
  std::int64_t burst_bytes = 1;
  std::int64_t round_bytes = 1;
};

/// A loop whose trips may be omitted.
struct Steady {
  std::int64_t trips = 0;
  std::int64_t period = 1;  ///< in trips
  bool whole = true;        ///< all memory positions repeat with the period

  friend bool operator==(const Steady&, const Steady&) = default;
};

/// Whether all trips except the first and last ones are equal: no inner loop's length depends on the index, no
/// expression reads values by the index, and no condition or extent changes in between.
bool steady(const Trip& trip);

/// Number of trips after which positions within bursts, layout tiles and channels repeat. Periods above 64 trips are
/// ignored, and `whole` is then false.
Steady repetition(const Trip& trip, const Places& places);

}  // namespace tilesim::engine::replay
