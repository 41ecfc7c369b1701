// What a vector compute costs per element, counted from its nodes and outputs.
#pragma once

#include <vector>

#include "tilesim/program/program.hpp"
#include "tilesim/tile/compute.hpp"

namespace tilesim::program {

VectorWork work_of(const std::vector<VectorNodeSpec>& nodes, int lane);
VectorWork work_of(const VectorOp& op);

}  // namespace tilesim::program
