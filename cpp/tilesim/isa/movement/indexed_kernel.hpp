// Kernels of gathers and scatters.
#pragma once

#include <vector>

#include "tilesim/isa/movement/move_writer.hpp"

namespace tilesim::isa {

struct IndexedAddresses { Address in = 0, index = 0, out = 0; };  ///< of the first element of each view

/// All are the same; at least one. A kernel ends in `ebreak` where an index lies outside. Unsupported where none does
/// it.
std::vector<Kernel> indexed_kernels(const InstructionSet& set, const CoreTiming& core, const Indexed& indexed,
                                    const IndexedAddresses& at);

}  // namespace tilesim::isa
