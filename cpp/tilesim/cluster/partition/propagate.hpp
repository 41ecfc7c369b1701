// Divisions of given values spread over a graph, along the factors that operations share.
#pragma once

#include <vector>

#include "tilesim/cluster/partition/manual.hpp"
#include "tilesim/cluster/partition/rule.hpp"

namespace tilesim::partitioning {

struct Spread {
  std::vector<std::vector<Layout>> layouts;  ///< by function and value
  std::vector<std::vector<Rule>> rules;      ///< by function and operation
};

/// From the shardings that values of the graph carry. Given axes never change, open ones may be divided further.
Spread propagate(const Grid& grid, const Graph& graph);

}  // namespace tilesim::partitioning
