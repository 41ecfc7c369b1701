// Kernels of permutes. They move elements without regard to their type.
#pragma once

#include <vector>

#include "tilesim/isa/movement/move_writer.hpp"

namespace tilesim::isa {

struct PermuteAddresses {
  Address in = 0, out = 0;  ///< addresses of the first element of each view
  Address aside = 0;        ///< space for all elements, for an in-place permute
};

/// Equivalent kernels, at least one; which one is the fastest varies. Throws Unsupported if no kernel can do it.
std::vector<Kernel> permute_kernels(const InstructionSet& set, const CoreTiming& core, const Permute& permute,
                                    const PermuteAddresses& at);

/// Bytes of temporary memory that the kernels use.
std::int64_t bytes_aside(const Permute& permute);

}  // namespace tilesim::isa
