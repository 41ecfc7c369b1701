// Inputs and weights of the run that requires equal bits.
#pragma once

#include <map>
#include <string>

#include "tilesim/base/array.hpp"
#include "tilesim/graph/graph.hpp"
#include "tilesim/program/program.hpp"
#include "tilesim/validate/exact_values.hpp"

namespace tilesim::validate {

/// `inputs` with values drawn by `patterns`, by tensor name; kept inputs and 2:4 weights are unchanged.
std::map<std::string, Array> drawn_inputs(const Graph& graph, const program::Program& program, const Patterns& patterns,
                                          const std::map<std::string, Array>& inputs);

}  // namespace tilesim::validate
