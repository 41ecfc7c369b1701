// Checks of a graph before lowering: empty tensors, given mappings, and element types.
#pragma once

#include "tilesim/compile/plan/options.hpp"
#include "tilesim/graph/graph.hpp"
#include "tilesim/program/program.hpp"

namespace tilesim::lower {

/// Throws Unsupported for an operation on empty tensors, which have no tiles. Operands may be empty if the operation
/// only moves elements.
void check_elements(const Graph& graph);

/// Throws UserError if a given nest does not belong to a product of the graph.
void check_mappings(const Graph& graph, const CompileOptions& options);

/// Whether the vector unit computes on elements of the type.
bool computes(const VectorSpec& vector, DType dtype);

}  // namespace tilesim::lower
