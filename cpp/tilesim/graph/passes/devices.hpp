// Replaces operations between identical devices by their result on one device, so that the graph runs on a single one.
#pragma once

#include "tilesim/graph/graph.hpp"

namespace tilesim {

/// Operations whose operands or results are on several devices.
bool between_devices(Kind kind);

/// Operations between devices become what they give on device 0 where every device of a group holds the same tensors:
/// sums are multiples, gathered parts copies. What they move on the device is timed, communication is
/// not. Names of the operations that were replaced.
std::vector<std::string> one_of_alike_devices(Graph& graph);

}  // namespace tilesim
