// Merges axes of elementwise operations if layout tiles would leave lanes empty.
#pragma once

#include <set>
#include <string>

#include "tilesim/compile/plan/plan.hpp"

namespace tilesim::lower {

/// Elementwise operations that read each other compute over their minor axes as one, with reshapes at their ends, where
/// the registers and bytes that this no longer pads save more than the reshapes move; whether any do. `kept`: values
/// whose operations stay as they are; `searched`: tiles of kernels are.
bool collapse_axes(Graph& graph, const Share& machine, const std::set<std::string>& kept, bool searched);

}  // namespace tilesim::lower
