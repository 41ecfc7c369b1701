// Removes tensors without elements from a graph.
#pragma once

#include "tilesim/graph/passes.hpp"

namespace tilesim {

/// Removes operations with empty results. Replaces operations on other empty tensors by their remaining part: a sum
/// over no elements is zero, a concatenation keeps its nonempty operands. Functions except the entry function lose
/// empty inputs and outputs. Returns the number of changed operations. Throws UserError if a result is undefined
/// (integer mean of no elements).
int fold_empty(Graph& graph, const Evaluator& evaluate);

}  // namespace tilesim
