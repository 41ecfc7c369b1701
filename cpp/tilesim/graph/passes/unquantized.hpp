// Removes quantization from a graph.
#pragma once

#include "tilesim/graph/graph.hpp"

namespace tilesim {

/// The same functions without rounding to narrow types. Floats below 32 bits become f32; numbers that are rounded to
/// integers of at most 8 bits (saturated or clamped) stay unrounded, and are computed in f32. Stored integers keep
/// their values, because the graph does not contain the weights before rounding. Inputs keep their dtypes. Throws
/// Unsupported if an operation reads bits of such numbers, or if they enter a loop or branch.
Graph unquantized(const Graph& graph);

}  // namespace tilesim
