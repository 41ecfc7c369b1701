// Kernels of sorts: words that combine a key and its position pass a sorting network.
#pragma once

#include "tilesim/isa/pipeline/timing.hpp"
#include "tilesim/isa/schedule/code.hpp"
#include "tilesim/isa/state/memory.hpp"
#include "tilesim/tile/sort_plan.hpp"
#include "tilesim/tile/tile.hpp"

namespace tilesim::isa {

/// Layouts by a SortPlan. In: [row blocks][filled registers][elements of a register]; keys and positions: [row
/// blocks][result registers][elements of a register]; work: words of one row block.
struct SortAddresses { Address in = 0, keys = 0, positions = 0, work = 0; };

struct SortKernel {
  Kernel kernel;
  SortPlan plan;
};

/// A kernel for each of `sort_plans`, at least one. Throws Unsupported if no kernel can sort the operands.
std::vector<SortKernel> sort_kernels(const InstructionSet& set, const CoreTiming& core, const tilesim::Sort& sort,
                                     const SortAddresses& at);
/// The plans of `sort_kernels` without the kernels.
std::vector<SortPlan> plans_of(const CoreTiming& core, const tilesim::Sort& sort);
SortKernel sort_kernel(const InstructionSet& set, const tilesim::Sort& sort, const SortPlan& plan,
                       const SortAddresses& at);

}  // namespace tilesim::isa
