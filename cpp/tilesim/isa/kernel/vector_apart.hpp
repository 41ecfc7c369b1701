// Splits a vector compute by its results, if they need several kernels.
#pragma once

#include <vector>

#include "tilesim/isa/schedule/code.hpp"
#include "tilesim/tile/tile.hpp"

namespace tilesim::isa {

/// The same operands, with some of the results and the nodes that they need.
VectorCompute with_outputs(const VectorCompute& compute, const std::vector<std::size_t>& outputs);
/// Numbers of the results that are combined over the same dims; where all of them are, each half of the results. One
/// group where there is one result.
std::vector<std::vector<std::size_t>> groups_of_outputs(const VectorCompute& compute);
/// One kernel behind the other.
Kernel behind(const Kernel& first, const Kernel& second);

}  // namespace tilesim::isa
