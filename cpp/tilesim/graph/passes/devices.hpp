// Replaces operations between identical devices by their result on one device: the graph then runs on one device.
#pragma once

#include "tilesim/graph/graph.hpp"

namespace tilesim {

/// Whether operands or results of the kind are on several devices.
bool between_devices(Kind kind);

/// Replaces operations between devices by their result on device 0 if all devices of a group hold equal tensors: sums
/// become multiples, gathered parts copies. Their data movement on the device is timed, communication is not. Returns
/// the names of replaced operations.
std::vector<std::string> one_of_alike_devices(Graph& graph);

}  // namespace tilesim
