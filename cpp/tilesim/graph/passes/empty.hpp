// Removes tensors without elements from a graph.
#pragma once

#include "tilesim/graph/passes.hpp"

namespace tilesim {

/// Nothing is left that reads or computes a tensor without elements: operations with empty results go, what remains of
/// the others stands in their place (sums of nothing are zeros, a concatenation takes what has elements), and functions
/// neither take nor give empty tensors, the entry function aside. Returns how many operations it changed. UserError
/// where nothing has no value (the integer mean, a row to repeat).
int fold_empty(Graph& graph, const Evaluator& evaluate);

}  // namespace tilesim
