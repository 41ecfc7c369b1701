// Removes loop trips or calls from a program.
#pragma once

#include "tilesim/engine/replay/trip.hpp"

namespace tilesim::engine::replay {

/// The program with shorter loops. `kept`: trips per loop to keep; the first and last trips keep their loop index.
program::Program without_trips(const program::Program& program, const TripCounts& kept);

/// The program with only the first `count` of the calls [first, last) in its main body.
program::Program with_calls(const program::Program& program, std::size_t first, std::size_t last, std::size_t count);

}  // namespace tilesim::engine::replay
