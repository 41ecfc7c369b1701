// Kernels of vector computes: registers hold rows of lanes with 32-bit values.
#pragma once

#include <string>
#include <vector>

#include "tilesim/isa/kernel/vector_form.hpp"
#include "tilesim/isa/pipeline/timing.hpp"
#include "tilesim/isa/schedule/code.hpp"
#include "tilesim/isa/state/memory.hpp"

namespace tilesim::isa {

/// Where operands lie, as their reach says; `one` is a register of equal elements.
struct VectorAddresses {
  std::vector<Address> inputs, outputs;  ///< results: as `each`; combined ones: as `by_group`
  std::vector<Address> counts;           ///< of `iota` nodes, in their order: as `each`, 32-bit integers
  Address lanes_there = 0;  ///< bits [rows][lanes] of lanes that have elements, where they are left out of totals
  Address valid = 0;  ///< bits [steps from `ragged_from` on][rows][lanes] of what is there, where the form is ragged
};

struct VectorKernel {
  Kernel kernel;
  RegisterForm form;
  std::string
      inexact;  ///< why its values may differ from the compute's meaning; empty: they do not, but for float sums
};

/// Kernels that differ in the length of registers, and in whether those that have operands of rows in common follow
/// each other; at least one.
/// Unsupported where no kernel does it. `lanes`: elements of a row.
std::vector<VectorKernel> vector_kernels(const InstructionSet& set, const CoreTiming& core,
                                         const VectorCompute& compute, std::int64_t lanes, const VectorAddresses& at);

}  // namespace tilesim::isa
