// Kernel candidates written for narrower cores: schedules for a core of half the width are sometimes the faster ones.
#pragma once

#include <vector>

#include "tilesim/isa/kernel/vector_kernel.hpp"
#include "tilesim/isa/movement/indexed_kernel.hpp"
#include "tilesim/isa/movement/permute_kernel.hpp"

namespace tilesim::isa {

/// A core, then the same with registers of half the length, and so on, while `bits` are few registers and these hold
/// `least` bits: the other half of each stays out of vl.
std::vector<CoreTiming> shorter_cores(const CoreTiming& core, std::int64_t bits, std::int64_t least);

/// A core, then those with half of its arithmetic pipes, load ports or store ports, down to one of each. Where few
/// registers do, each of them with shorter registers, as long as they hold a row of lanes, and the core with cross-lane
/// units and ports of half the rate: schedules for less are sometimes the better ones.
std::vector<CoreTiming> narrower_cores(const CoreTiming& core, const VectorCompute& compute, std::int64_t lanes);

/// Of one of them; none where a narrower one has no kernel, Unsupported where the core itself has none.
std::vector<VectorKernel> kernels_of_core(const InstructionSet& set, const std::vector<CoreTiming>& cores,
                                          std::size_t number, const VectorCompute& compute, std::int64_t lanes,
                                          const VectorAddresses& at);

/// Of a core and shorter ones.
std::vector<Kernel> permutes_of_cores(const InstructionSet& set, const CoreTiming& core, const Permute& compute,
                                      const PermuteAddresses& at);
std::vector<Kernel> indexed_of_cores(const InstructionSet& set, const CoreTiming& core, const Indexed& compute,
                                     const IndexedAddresses& at);

}  // namespace tilesim::isa
