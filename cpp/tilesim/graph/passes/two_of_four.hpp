// Products with a weight in the 2:4 pattern, stored as its values and their positions.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tilesim/graph/graph.hpp"

namespace tilesim {

/// A matrix whose elements along `axis` become one of the 2:4 type for every eight; a last one may be short. Throws
/// UserError naming the first group of four with more than two values; `name`: of the matrix.
Array compressed_two_of_four(const Array& matrix, int axis, const std::string& name);

/// The matrix again; `depth`: its elements along the axis.
Array expanded_two_of_four(const Array& stored, int axis, std::int64_t depth);

/// How a compressed weight is expanded.
struct TwoOfFour {
  int axis = 0;
  std::int64_t depth = 0;
};
/// Makes a graph's 2:4 weights and the values that are them plain again. Returns the weights by name.
std::map<std::string, TwoOfFour> expand_two_of_four(Graph& graph);

/// Stores the second operand of contracts compressed where it is a matrix, a weight, stated to be 2:4 ("b_format"), and
/// `takes` the operation. The dense weight stays among the graph's weights. Returns a line for each that it changed,
/// and for each that it left expanded with the reason; `takes` gives one, or nothing.
std::vector<std::string> compress_two_of_four(Graph& graph, const std::function<std::string(const Op&, DType)>& takes);

}  // namespace tilesim
