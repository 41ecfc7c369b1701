// Removes tensors without elements from a graph.
#pragma once

#include "tilesim/graph/passes.hpp"

namespace tilesim {

/// Removes all uses of empty tensors: operations with empty results are removed, others are replaced by their remaining
/// part (a sum over no elements is zero, a concatenation keeps nonempty parts), and functions except the entry lose
/// empty inputs and outputs. Returns the number of changed operations. UserError for undefined results (the integer
/// mean of no elements, a row to repeat).
int fold_empty(Graph& graph, const Evaluator& evaluate);

}  // namespace tilesim
