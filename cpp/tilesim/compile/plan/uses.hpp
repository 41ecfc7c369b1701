// Producers and readers of a function's values, and the kinds that the vector unit computes element by element.
#pragma once

#include <vector>

#include "tilesim/graph/graph.hpp"

namespace tilesim::lower {

/// The producer and the readers of each value of a function.
struct Uses {
  explicit Uses(const GraphFunction& function);
  std::vector<int> producer;                ///< per value: index of its operation; -1: none
  std::vector<std::vector<int>> consumers;  ///< per value: indices of operations, each once
  std::vector<bool> is_output;
};

bool is_vector_kind(Kind kind);   ///< elementwise, convert, reduce, cumulative, window_reduce, iota
bool is_recomputable(Kind kind);  ///< elementwise, convert, iota: cheap to recompute in every reader

}  // namespace tilesim::lower
