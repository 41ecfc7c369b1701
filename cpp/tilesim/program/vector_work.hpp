// Cost of a vector compute per element, counted from its nodes and outputs.
#pragma once

#include <functional>
#include <vector>

#include "tilesim/program/program.hpp"
#include "tilesim/tile/compute.hpp"

namespace tilesim::program {

/// Of each node the user's instruction that stands for it, or null; empty: none has one.
using CustomInstructions = std::vector<const UserInstruction*>;

/// Nodes of `own` instructions whose cycles are stated count as own work.
VectorWork work_of(const std::vector<VectorNodeSpec>& nodes, int lane, const CustomInstructions& own = {});
VectorWork work_of(const VectorOp& op, const CustomInstructions& own = {});
/// Type of the slot that a view lies in.
using DTypeOf = std::function<DType(const View&)>;
VectorPattern pattern_of(const VectorOp& op, const DTypeOf& dtype_of, const CustomInstructions& own = {});

}  // namespace tilesim::program
