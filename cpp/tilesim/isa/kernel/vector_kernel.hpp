// Kernels of vector computes: registers hold rows of lanes with 32-bit values.
#pragma once

#include <string>
#include <vector>

#include "tilesim/isa/kernel/vector_form.hpp"
#include "tilesim/isa/pipeline/timing.hpp"
#include "tilesim/isa/schedule/code.hpp"
#include "tilesim/isa/state/memory.hpp"

namespace tilesim::isa {

/// Addresses of operands by their reach; `one` needs a register of equal elements.
struct VectorAddresses {
  std::vector<Address> inputs, outputs;  ///< results: as `each`; reduced results: as `by_group`
  std::vector<Address> counts;           ///< of `iota` nodes in order: as `each`, 32-bit integers
  Address lanes_there = 0;               ///< bits [rows][lanes] of lanes with elements, if totals exclude others
  Address valid = 0;  ///< bits [steps from `ragged_from` on][rows][lanes] of existing elements, if the form is ragged
};

struct VectorKernel {
  Kernel kernel;
  RegisterForm form;
  std::string inexact;  ///< why values may differ from the definition, beyond float sums; empty: they do not
};

/// Kernels with different register lengths and register orders; at least one. Throws Unsupported if no kernel can
/// compute it. `lanes`: elements of a row.
std::vector<VectorKernel> vector_kernels(const InstructionSet& set, const CoreTiming& core,
                                         const VectorCompute& compute, std::int64_t lanes, const VectorAddresses& at);

}  // namespace tilesim::isa
