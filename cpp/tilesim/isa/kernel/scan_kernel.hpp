// Kernels of vector computes with running sums. The steps of a group follow each other and carry the sums.
#pragma once

#include <vector>

#include "tilesim/isa/kernel/vector_kernel.hpp"

namespace tilesim::isa {

/// As `vector_kernels`, of computes with running sums; they differ in how many values stand side by side too.
std::vector<VectorKernel> scan_kernels(const InstructionSet& set, const CoreTiming& core, const VectorCompute& compute,
                                       std::int64_t lanes, const VectorAddresses& at);

}  // namespace tilesim::isa
