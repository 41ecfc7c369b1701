// Loops of a graph whose trip count depends on data.
#pragma once

#include <string>
#include <vector>

#include "tilesim/graph/graph.hpp"

namespace tilesim {

/// A loop, and the function that contains it.
struct OpenLoop { std::string function, operation; };

/// All loops whose length depends on data, in order.
std::vector<OpenLoop> open_loops(const Graph& graph);

}  // namespace tilesim
