// Splits a vector compute by its results, if one kernel cannot compute all.
#pragma once

#include <vector>

#include "tilesim/isa/schedule/code.hpp"
#include "tilesim/tile/tile.hpp"

namespace tilesim::isa {

/// A compute with the same operands, only these results, and the nodes that they need.
VectorCompute with_outputs(const VectorCompute& compute, const std::vector<std::size_t>& outputs);
/// Groups of results that reduce the same dims; if there is only one group, its two halves. One result: one group.
std::vector<std::vector<std::size_t>> groups_of_outputs(const VectorCompute& compute);
/// Concatenates two kernels.
Kernel behind(const Kernel& first, const Kernel& second);

}  // namespace tilesim::isa
