// Finds the nodes of a vector compute that user-defined instructions carry out.
#pragma once

#include "tilesim/program/vector_work.hpp"

namespace tilesim::engine {

/// The user's instruction of each node, chosen as in kernels; null if the node is not a function with an instruction,
/// or computes on other types than the instruction.
program::CustomInstructions custom_instructions(const program::VectorOp& op, const program::DTypeOf& dtype_of,
                                                const UserInstructions& known);

}  // namespace tilesim::engine
