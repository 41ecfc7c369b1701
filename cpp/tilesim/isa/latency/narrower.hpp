// Kernel candidates written for narrower cores: schedules for a core of half the width are sometimes the faster ones.
#pragma once

#include <vector>

#include "tilesim/isa/kernel/vector_kernel.hpp"
#include "tilesim/isa/movement/indexed_kernel.hpp"
#include "tilesim/isa/movement/permute_kernel.hpp"

namespace tilesim::isa {

/// A core, and variants with repeatedly halved register lengths, as long as `bits` need few registers and these hold
/// `least` bits: vl excludes the rest of a register.
std::vector<CoreTiming> shorter_cores(const CoreTiming& core, std::int64_t bits, std::int64_t least);

/// A core, and variants with half the arithmetic pipes, load ports or store ports, down to one of each. If few
/// registers suffice, each also with shorter registers that hold a row of lanes, and the core with cross-lane units and
/// ports of half the rate. Schedules for such variants are sometimes faster.
std::vector<CoreTiming> narrower_cores(const CoreTiming& core, const VectorCompute& compute, std::int64_t lanes);

/// Kernels for one of the variants; empty if a narrower core has none. Throws Unsupported if the core itself has none.
std::vector<VectorKernel> kernels_of_core(const InstructionSet& set, const std::vector<CoreTiming>& cores,
                                          std::size_t number, const VectorCompute& compute, std::int64_t lanes,
                                          const VectorAddresses& at);

/// Permutes for a core and its variants with shorter registers.
std::vector<Kernel> permutes_of_cores(const InstructionSet& set, const CoreTiming& core, const Permute& compute,
                                      const PermuteAddresses& at);
std::vector<Kernel> indexed_of_cores(const InstructionSet& set, const CoreTiming& core, const Indexed& compute,
                                     const IndexedAddresses& at);

}  // namespace tilesim::isa
