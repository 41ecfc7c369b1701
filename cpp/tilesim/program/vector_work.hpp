// What a vector compute costs per element, counted from its nodes and outputs.
#pragma once

#include <functional>
#include <vector>

#include "tilesim/program/program.hpp"
#include "tilesim/tile/compute.hpp"

namespace tilesim::program {

/// `taken`: instructions that stand for functions; those whose cycles are stated count as `own` work.
VectorWork work_of(const std::vector<VectorNodeSpec>& nodes, int lane, const UserInstructions& taken = {});
VectorWork work_of(const VectorOp& op, const UserInstructions& taken = {});
/// Type of the slot that a view lies in.
using DTypeOf = std::function<DType(const View&)>;
VectorPattern pattern_of(const VectorOp& op, const DTypeOf& dtype_of, const UserInstructions& taken = {});
/// Functions whose instructions state their cycles.
std::vector<tilesim::Function> functions_of(const UserInstructions& taken);

}  // namespace tilesim::program
