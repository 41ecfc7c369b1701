// Finds the nodes of a vector compute that user-defined instructions carry out.
#pragma once

#include "tilesim/program/vector_work.hpp"

namespace tilesim::engine {

/// Of each node its instruction, as kernels choose: null where it is not a function that has one, or computes in other
/// elements than the instruction's.
program::CustomInstructions custom_instructions(const program::VectorOp& op, const program::DTypeOf& dtype_of,
                                                const UserInstructions& known);

}  // namespace tilesim::engine
