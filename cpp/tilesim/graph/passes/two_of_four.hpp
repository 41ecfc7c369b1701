// Products with a weight in the 2:4 pattern, stored as its values and their positions.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tilesim/graph/graph.hpp"

namespace tilesim {

/// Compresses a matrix to the 2:4 type: eight elements along `axis` become one; the last group may be shorter. Throws
/// UserError naming the first group of four with more than two nonzero values; `name`: of the matrix.
Array compressed_two_of_four(const Array& matrix, int axis, const std::string& name);

/// Expands a compressed matrix; `depth`: number of elements along the axis.
Array expanded_two_of_four(const Array& stored, int axis, std::int64_t depth);

/// The expansion of a compressed weight.
struct TwoOfFour {
  int axis = 0;
  std::int64_t depth = 0;
};
/// Expands a graph's 2:4 weights and their values. Returns the weights by name.
std::map<std::string, TwoOfFour> expand_two_of_four(Graph& graph);

/// Compresses the second operand of contracts if it is a matrix, a weight, declared 2:4 ("b_format"), and `takes`
/// accepts the operation (empty text, else the reason). The dense weight remains among the graph's weights. Returns a
/// line for each compressed weight, and for each expanded one with the reason.
std::vector<std::string> compress_two_of_four(Graph& graph, const std::function<std::string(const Op&, DType)>& takes);

}  // namespace tilesim
