// Finds the nodes of a vector compute that are user-defined instructions.
#pragma once

#include "tilesim/program/vector_work.hpp"

namespace tilesim::engine {

/// The user-defined instruction of each node, selected as in kernels; null if the node is not a function with one, or
/// has other types than the instruction.
program::CustomInstructions custom_instructions(const program::VectorOp& op, const program::DTypeOf& dtype_of,
                                                const UserInstructions& known);

}  // namespace tilesim::engine
