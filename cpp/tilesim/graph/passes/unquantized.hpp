// Removes quantization from a graph: the same function without roundings to narrow types.
#pragma once

#include "tilesim/graph/graph.hpp"

namespace tilesim {

/// The same function without rounding to narrow types: floats below 32 bits become f32, numbers rounded to integers of
/// at most 8 bits (saturated, or clamped before) stay unrounded, and computations on them use f32. Stored integers keep
/// their values, because the graph lacks the weights before rounding. Inputs keep their dtypes. Throws Unsupported if
/// an operation reads bits of such numbers, or a loop or branch takes them.
Graph unquantized(const Graph& graph);

}  // namespace tilesim
