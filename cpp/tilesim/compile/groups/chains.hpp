// Decides which consecutive products become one kernel.
#pragma once

#include <vector>

#include "tilesim/compile/groups/grouping.hpp"
#include "tilesim/compile/plan/uses.hpp"

namespace tilesim::lower {

/// Joins consecutive product kernels, if each is the only reader of the previous result and one kernel has a lower
/// estimated time, or fewer bytes at equal time. Returns a row per chain that was considered.
std::vector<FusionCandidate> join_chains(std::vector<Kernel>& kernels, const Context& context, const Uses& uses,
                                         const KeptApart& kept_apart);

}  // namespace tilesim::lower
