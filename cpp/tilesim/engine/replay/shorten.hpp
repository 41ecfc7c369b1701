// Removes trips of loops, or calls, from a program.
#pragma once

#include "tilesim/engine/replay/trip.hpp"

namespace tilesim::engine::replay {

/// `kept`: how many trips each loop keeps, of its middle ones; the first and the last ones keep their index.
program::Program without_trips(const program::Program& program, const TripCounts& kept);

/// Of the calls [first, last) in the program's own body the first `count`.
program::Program with_calls(const program::Program& program, std::size_t first, std::size_t last, std::size_t count);

}  // namespace tilesim::engine::replay
