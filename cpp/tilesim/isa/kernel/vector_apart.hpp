// Splits a vector compute by its results, if they need several kernels.
#pragma once

#include <vector>

#include "tilesim/isa/schedule/code.hpp"
#include "tilesim/tile/tile.hpp"

namespace tilesim::isa {

/// The same operands, with only these results and the nodes that they need.
VectorCompute with_outputs(const VectorCompute& compute, const std::vector<std::size_t>& outputs);
/// Groups of results that are combined over the same dims; if that is one group, each half of the results. A single
/// group for one result.
std::vector<std::vector<std::size_t>> groups_of_outputs(const VectorCompute& compute);
/// Concatenates two kernels.
Kernel behind(const Kernel& first, const Kernel& second);

}  // namespace tilesim::isa
