// Cost of a vector compute per element, counted from its nodes and outputs.
#pragma once

#include <functional>
#include <vector>

#include "tilesim/program/program.hpp"
#include "tilesim/tile/compute.hpp"

namespace tilesim::program {

/// For each node the user's instruction that replaces it, or null; empty: no node has one.
using CustomInstructions = std::vector<const UserInstruction*>;

/// The work of the nodes; those of `own` instructions with stated cycles count separately.
VectorWork work_of(const std::vector<VectorNodeSpec>& nodes, int lane, const CustomInstructions& own = {});
VectorWork work_of(const VectorOp& op, const CustomInstructions& own = {});
/// Gives the type of the slot that a view refers to.
using DTypeOf = std::function<DType(const View&)>;
VectorPattern pattern_of(const VectorOp& op, const DTypeOf& dtype_of, const CustomInstructions& own = {});

}  // namespace tilesim::program
