// Finds loops whose trips repeat, and after how many trips.
#pragma once

#include <cstdint>

#include "tilesim/engine/replay/trip.hpp"

namespace tilesim::engine::replay {

/// What decides whether two addresses are alike: bursts, and bytes after which channels take turns again.
struct Places {
  std::int64_t burst_bytes = 1;
  std::int64_t round_bytes = 1;
};

/// A loop that may lack trips.
struct Steady {
  std::int64_t trips = 0;
  std::int64_t period = 1;  ///< trips after which they repeat
  bool whole = true;        ///< whether all places in memory repeat by then

  friend bool operator==(const Steady&, const Steady&) = default;
};

/// Whether trips are alike but for the first and last ones: no inner loop grows with the index, nothing reads other
/// values with it, no condition or extent bends in the middle.
bool steady(const Trip& trip);

/// After how many trips places within bursts, layout tiles and channels repeat; those that repeat later than after 64
/// trips are left out, and `whole` says so.
Steady repetition(const Trip& trip, const Places& places);

}  // namespace tilesim::engine::replay
