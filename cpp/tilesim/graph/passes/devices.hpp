// Replaces collectives between devices with equal values by local operations: the graph then runs on one device.
#pragma once

#include "tilesim/graph/graph.hpp"

namespace tilesim {

/// Whether the kind is an operation between devices.
bool between_devices(Kind kind);

/// If all devices of a group have equal tensors, replaces operations between devices by their result on device 0: a sum
/// becomes a multiple, a gather copies. Timing covers data movement on the device, not communication. Returns the names
/// of replaced operations.
std::vector<std::string> one_of_alike_devices(Graph& graph);

}  // namespace tilesim
