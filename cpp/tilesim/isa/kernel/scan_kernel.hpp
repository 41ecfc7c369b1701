// Kernels of vector computes with running sums. Consecutive steps of a group carry the sums.
#pragma once

#include <vector>

#include "tilesim/isa/kernel/vector_kernel.hpp"

namespace tilesim::isa {

/// Like `vector_kernels`, for computes with running sums; kernels also differ in the number of copies.
std::vector<VectorKernel> scan_kernels(const InstructionSet& set, const CoreTiming& core, const VectorCompute& compute,
                                       std::int64_t lanes, const VectorAddresses& at);

}  // namespace tilesim::isa
