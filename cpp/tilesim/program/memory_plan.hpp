// Where tensors lie in off-chip memory: temporaries share addresses, by lifetime in the order of kernels; and those
// that stay in scratchpads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tilesim/program/memory_lifetimes.hpp"
#include "tilesim/program/program.hpp"

namespace tilesim::program {

/// Kernels are numbered as they run: those of a function anew in every call, those of a loop once, for all its trips.
struct MemoryPlan {
  struct Allocation {
    const Tensor* tensor = nullptr;
    std::int64_t address = 0, bytes = 0;
    std::int64_t first = 0, last = 0;  ///< kernels during which the bytes are taken, both included
    std::string alias_of;              ///< tensor in whose bytes this one lies; empty: its own
    Level level = Level::memory;       ///< scratchpad: at this address in every core, the most that one holds
  };
  std::vector<Allocation>
      allocations;  ///< of a tensor that functions use in several calls: one for each, at one address
  std::int64_t kernels = 0;
  KernelNumbering numbers;
  std::int64_t peak_bytes = 0;
  std::int64_t live_bytes = 0;       ///< of the largest set of tensors that live at one time
  std::int64_t scratchpad_peak = 0;  ///< bytes of a core that slots and tensors take at one time, at most
  std::int64_t scratchpad_live = 0;  ///< of these, tensors
  bool shared = true;  ///< false: too many kernels, or calls behind conditions; no two tensors share bytes
};

/// `granule`: bytes that addresses are multiples of. What is given with the program lies in its bytes throughout, an
/// output from its first store on. A temporary's bytes are free when every kernel that uses them is complete before
/// the next one stores: with kernels that overlap, as far as the program waits for it. The program must stay where it
/// is.
MemoryPlan plan_memory(const Program& program, std::int64_t granule);

}  // namespace tilesim::program
