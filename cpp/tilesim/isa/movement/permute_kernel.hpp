// Kernels of permutes. They move elements without regard to their type.
#pragma once

#include <vector>

#include "tilesim/isa/movement/move_writer.hpp"

namespace tilesim::isa {

struct PermuteAddresses {
  Address in = 0, out = 0;  ///< of the first element of each view
  Address aside = 0;        ///< where all elements fit, for one that takes the place of what it reads
};

/// All are the same, none is the fastest everywhere; at least one. Unsupported where no kernel does it.
std::vector<Kernel> permute_kernels(const InstructionSet& set, const CoreTiming& core, const Permute& permute,
                                    const PermuteAddresses& at);

/// Bytes that kernels lay aside.
std::int64_t bytes_aside(const Permute& permute);

}  // namespace tilesim::isa
