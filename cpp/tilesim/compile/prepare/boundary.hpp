// The input and output tensors of a program, which are those of the main function.
#pragma once

#include <map>
#include <string>

#include "tilesim/graph/graph.hpp"
#include "tilesim/program/program.hpp"

namespace tilesim::lower {

/// Declares inputs and outputs in the program under the graph's names; returns the tensor of each value.
std::map<ValueId, std::string> declare_boundary(const GraphFunction& function, program::Program& program);

/// Renames functions whose formal names, "function.value", equal names of other values in the program.
void separate_formals(Graph& graph);

/// The function of the graph that a program calls by this name, which `separate_formals` may have changed; null: none.
const GraphFunction* called(const Graph& graph, const std::string& name);

}  // namespace tilesim::lower
