// Finds the user-defined instructions that a vector compute uses.
#pragma once

#include "tilesim/program/vector_work.hpp"

namespace tilesim::engine {

/// The user-defined instruction of each node. Null if the node is not a function, or if no instruction with this
/// function has the node's data types. Kernels select instructions in the same way.
program::CustomInstructions custom_instructions(const program::VectorOp& op, const program::DTypeOf& dtype_of,
                                                const UserInstructions& known);

}  // namespace tilesim::engine
