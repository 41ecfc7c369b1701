// Runs functions on one or several devices. Internal to this module.
#pragma once

#include <string>
#include <vector>

#include "tilesim/kernels/kernel.hpp"

namespace tilesim::kernels {

std::string place_of(const GraphFunction& function, const Op& op);
/// For each operation, the values without later readers.
std::vector<std::vector<ValueId>> last_uses(const GraphFunction& function);
Results run_op(const Graph& graph, const GraphFunction& function, const Op& op, const std::vector<Array>& operands,
               const EvaluateOptions& options);
/// UserError on a wrong count, dtype or shape.
void check_inputs(const GraphFunction& function, const std::vector<Array>& inputs);
/// Copies outputs that are views of an input, a weight or another output, because a caller may write to its results.
void own_outputs(const Graph& graph, const std::vector<Array>& inputs, std::vector<Array>& outputs);

}  // namespace tilesim::kernels
