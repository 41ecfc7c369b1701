// Reference meaning of graphs that several devices run together.
#pragma once

#include <vector>

#include "tilesim/kernels/kernels.hpp"

namespace tilesim {

/// Runs the entry function on several devices in lockstep, each with separate inputs; operations between devices pass
/// tensors among them, and combine them in the order of their group. device_index is the number of the device. Devices
/// must agree on trips and branches that have such operations in them: UserError.
std::vector<std::vector<Array>> evaluate_devices(const Graph& graph, const std::vector<std::vector<Array>>& inputs,
                                                 const EvaluateOptions& options = {});

}  // namespace tilesim
