// Makes the graph ready for one machine: expansion, folding, layout copies.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>

#include "tilesim/compile/plan.hpp"

namespace tilesim::lower {

struct Prepared {
  Graph graph;
  std::set<std::string> kept_apart;  ///< values that end a kernel although their reader could join it
};

/// Composites become primitives, small constants are folded, no-ops go; what the machine's profile asks for is
/// inserted.
Prepared prepare(const Graph& graph, const Machine& machine, const CompileOptions& options);

/// Values of a function that are known constants of one element.
std::map<ValueId, double> known_scalars(const Graph& graph, const GraphFunction& function);

/// Values whose elements are all one known constant, and that no kernel reads as a tensor: they need no bytes.
/// `counts`: whether an operand of a loop is its counter, which is a number too.
std::map<ValueId, double> numbers(const Graph& graph, const GraphFunction& function,
                                  const std::function<bool(const Op&, std::size_t)>& counts);

/// Memory layouts for chips that pad the two minor dimensions: entry rule for inputs and weights, channel-minor around
/// convolutions.
void assign_layouts(const GraphFunction& function, const Machine& machine, program::Program& program);

}  // namespace tilesim::lower
