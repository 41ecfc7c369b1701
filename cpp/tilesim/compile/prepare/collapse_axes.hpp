// Merges axes of elementwise operations if layout tiles would leave lanes empty.
#pragma once

#include <set>
#include <string>

#include "tilesim/compile/plan/plan.hpp"

namespace tilesim::lower {

/// Merges the minor axes of connected elementwise operations into one, with reshapes at their ends, if the padding
/// saved in registers and bytes exceeds the cost of the reshapes. Returns whether the graph changed. `kept`: values
/// whose operations stay unchanged; `searched`: whether tiles of kernels are searched.
bool collapse_axes(Graph& graph, const Share& machine, const std::set<std::string>& kept, bool searched);

}  // namespace tilesim::lower
