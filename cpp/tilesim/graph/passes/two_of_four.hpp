// Products with a weight in the 2:4 pattern, which is stored as values and positions.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tilesim/graph/graph.hpp"

namespace tilesim {

/// Compresses a matrix to the 2:4 type: eight elements along `axis` become one; the last group may have fewer. Throws
/// UserError that names the matrix (`name`) and the first group of four with more than two nonzeros.
Array compressed_two_of_four(const Array& matrix, int axis, const std::string& name);

/// Expands a compressed matrix; `depth`: number of elements along the axis after expansion.
Array expanded_two_of_four(const Array& stored, int axis, std::int64_t depth);

/// How a compressed weight is expanded.
struct TwoOfFour {
  int axis = 0;
  std::int64_t depth = 0;
};
/// Replaces all 2:4 weights of a graph by expanded ones. Returns how each was compressed, by name.
std::map<std::string, TwoOfFour> expand_two_of_four(Graph& graph);

/// Compresses the second operand of a contract if it is a matrix and a weight, declared 2:4 by "b_format", and `takes`
/// accepts the operation (it returns an empty text, or the reason). The dense weight stays in the graph. Returns a line
/// per compressed weight, and per expanded weight with the reason.
std::vector<std::string> compress_two_of_four(Graph& graph, const std::function<std::string(const Op&, DType)>& takes);

}  // namespace tilesim
