// Inputs and weights of the run that asks for the same bits.
#pragma once

#include <map>
#include <string>

#include "tilesim/base/array.hpp"
#include "tilesim/graph/graph.hpp"
#include "tilesim/program/program.hpp"
#include "tilesim/validate/exact_values.hpp"

namespace tilesim::validate {

/// `inputs` with values drawn as `patterns` say, by tensor name; what is to be kept, and 2:4 weights, as they are.
std::map<std::string, Array> drawn_inputs(const Graph& graph, const program::Program& program, const Patterns& patterns,
                                          const std::map<std::string, Array>& inputs);

}  // namespace tilesim::validate
