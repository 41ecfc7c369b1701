// The input and output tensors of a program: those of the main function.
#pragma once

#include <map>
#include <string>

#include "tilesim/graph/graph.hpp"
#include "tilesim/program/program.hpp"

namespace tilesim::lower {

/// Declares them in the program, named as in the graph; gives the tensor of each value.
std::map<ValueId, std::string> declare_boundary(const GraphFunction& function, program::Program& program);

/// Renames functions whose formal names, "function.value", are those of other values of the program.
void separate_formals(Graph& graph);

/// The function of a graph that a program calls by a name, which `separate_formals` may have made; null: none.
const GraphFunction* called(const Graph& graph, const std::string& name);

}  // namespace tilesim::lower
