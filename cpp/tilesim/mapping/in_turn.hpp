// What a product's prologue or epilogue moves and computes of each element, where only the number of functions is known.
#pragma once

#include <cstdint>

#include "tilesim/machine/share.hpp"
#include "tilesim/mapping/nest.hpp"
#include "tilesim/tile/vector_work.hpp"

namespace tilesim::mapping {

/// So many functions, each of the one before. `edges`: axes beyond whose ends zeros are put in a value's place: its
/// place, moved, clamped, compared; one of both chosen.
VectorPattern functions_in_turn(DType from, DType to, std::int64_t count, std::int64_t edges = 0);
/// Axes of an operand for each of which the compiler counts four functions among those of its prologue.
std::int64_t edges_of(const Problem& problem, std::size_t operand, const Share& machine);

}  // namespace tilesim::mapping
