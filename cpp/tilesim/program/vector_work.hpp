// The work of a vector compute per element.
#pragma once

#include <functional>
#include <vector>

#include "tilesim/program/program.hpp"
#include "tilesim/tile/compute.hpp"

namespace tilesim::program {

/// Per node: the user-defined instruction that replaces it, or null. Empty: no node has one.
using CustomInstructions = std::vector<const UserInstruction*>;

/// Counts the operations of the nodes. A user-defined instruction with given cycles counts separately.
VectorWork work_of(const std::vector<VectorNodeSpec>& nodes, int lane, const CustomInstructions& own = {});
VectorWork work_of(const VectorOp& op, const CustomInstructions& own = {});
/// Returns the type of the slot that a view refers to.
using DTypeOf = std::function<DType(const View&)>;
VectorPattern pattern_of(const VectorOp& op, const DTypeOf& dtype_of, const CustomInstructions& own = {});

}  // namespace tilesim::program
