// Reference meaning of graphs that several devices run together.
#pragma once

#include <vector>

#include "tilesim/kernels/kernels.hpp"

namespace tilesim {

/// Runs the entry function on several devices in lockstep, each with separate inputs; operations between devices
/// exchange tensors, and combine them in the order of their group. device_index is the number of the device. UserError
/// if devices differ in trips or branches that contain such operations.
std::vector<std::vector<Array>> evaluate_devices(const Graph& graph, const std::vector<std::vector<Array>>& inputs,
                                                 const EvaluateOptions& options = {});

}  // namespace tilesim
