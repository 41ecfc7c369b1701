// Kernels of gathers and scatters.
#pragma once

#include <vector>

#include "tilesim/isa/movement/move_writer.hpp"

namespace tilesim::isa {

struct IndexedAddresses { Address in = 0, index = 0, out = 0; };  ///< address of the first element of each view

/// Equivalent kernels, at least one. A kernel ends with `ebreak` if an index is out of range. Throws Unsupported if no
/// kernel supports the operands.
std::vector<Kernel> indexed_kernels(const InstructionSet& set, const CoreTiming& core, const Indexed& indexed,
                                    const IndexedAddresses& at);

}  // namespace tilesim::isa
