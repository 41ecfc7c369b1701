// Merges axes of elementwise operations if lanes would otherwise be empty because of layout tiles.
#pragma once

#include <set>
#include <string>

#include "tilesim/compile/plan/plan.hpp"

namespace tilesim::lower {

/// Merges the minor axes of connected elementwise operations into one axis, with reshapes at their ends, if this saves
/// more padding in registers and bytes than the reshapes cost. Returns whether the graph changed. `kept`: values whose
/// operations do not change; `searched`: whether the compiler searches tiles of kernels.
bool collapse_axes(Graph& graph, const Share& machine, const std::set<std::string>& kept, bool searched);

}  // namespace tilesim::lower
