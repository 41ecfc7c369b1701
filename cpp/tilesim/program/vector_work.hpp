// What a vector compute costs per element, counted from its nodes and outputs.
#pragma once

#include <vector>

#include "tilesim/program/program.hpp"
#include "tilesim/tile/compute.hpp"

namespace tilesim::program {

/// `taken`: instructions that stand for functions; those whose cycles are stated count as `own` work.
VectorWork work_of(const std::vector<VectorNodeSpec>& nodes, int lane, const UserInstructions& taken = {});
VectorWork work_of(const VectorOp& op, const UserInstructions& taken = {});

}  // namespace tilesim::program
