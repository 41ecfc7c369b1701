// Decides which consecutive products become one kernel.
#pragma once

#include <vector>

#include "tilesim/compile/groups/grouping.hpp"
#include "tilesim/compile/plan/uses.hpp"

namespace tilesim::lower {

/// Joins product kernels whose only reader is the next one, if that lowers the estimated time, or the bytes at equal
/// time. Returns a row for each chain considered.
std::vector<FusionCandidate> join_chains(std::vector<Kernel>& kernels, const Context& context, const Uses& uses,
                                         const KeptApart& kept_apart);

}  // namespace tilesim::lower
