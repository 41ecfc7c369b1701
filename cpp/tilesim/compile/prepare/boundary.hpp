// What a program takes and gives: tensors of the main function's inputs and outputs.
#pragma once

#include <map>
#include <string>

#include "tilesim/graph/graph.hpp"
#include "tilesim/program/program.hpp"

namespace tilesim::lower {

/// Declares them in the program, named as in the graph; gives the tensor of each value.
std::map<ValueId, std::string> declare_boundary(const GraphFunction& function, program::Program& program);

}  // namespace tilesim::lower
