// Decides which values have separate bytes, and the layout of tensors in memory.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tilesim/compile/plan/plan.hpp"
#include "tilesim/compile/plan/uses.hpp"
#include "tilesim/compile/plan/views.hpp"

namespace tilesim::lower {

/// Sets context.placements of all values that kernels read or store, and declares tensors in context.program. `narrow`:
/// stores values that only products read in the array's operand type.
void place_values(Context& context, bool narrow, const std::vector<Kernel>& kernels, const Uses& uses,
                  const Views& views, const std::string& prefix, const std::map<ValueId, std::string>& boundary);

}  // namespace tilesim::lower
