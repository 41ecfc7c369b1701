// Removes quantization from a graph: the same function without roundings to narrow types.
#pragma once

#include "tilesim/graph/graph.hpp"

namespace tilesim {

/// The same function without the roundings to narrow types: floats below 32 bits become f32, numbers that are rounded
/// to integers of 8 bits or fewer (saturated, or clamped before) stay as they were, and what is computed from them is
/// f32. Stored integers keep their values: what was lost when weights were rounded is not in the graph. Inputs keep
/// their dtypes. Throws Unsupported where bits of such numbers are used, or a loop or branch takes them.
Graph unquantized(const Graph& graph);

}  // namespace tilesim
