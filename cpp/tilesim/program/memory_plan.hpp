// The addresses of tensors in off-chip memory. Temporaries with disjoint lifetimes share addresses. The plan also lists
// the tensors that stay in scratchpads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tilesim/program/memory_lifetimes.hpp"
#include "tilesim/program/program.hpp"

namespace tilesim::program {

/// Kernels are numbered in execution order. Every call numbers its function's kernels again; a loop numbers its kernels
/// once for all trips.
struct MemoryPlan {
  struct Allocation {
    const Tensor* tensor = nullptr;
    std::int64_t address = 0, bytes = 0;
    std::int64_t first = 0, last = 0;  ///< first and last kernel that uses the bytes
    std::string alias_of;              ///< tensor whose bytes it uses; empty: separate bytes
    Level level = Level::memory;       ///< scratchpad: same address in all cores; bytes: largest part
  };
  std::vector<Allocation> allocations;  ///< a tensor that several calls use has one entry per call, at one address
  std::int64_t kernels = 0;
  KernelNumbering numbers;
  std::int64_t peak_bytes = 0;
  std::int64_t live_bytes = 0;       ///< largest sum of bytes of tensors that are live at the same time
  std::int64_t scratchpad_peak = 0;  ///< largest sum of bytes of slots and tensors in a core
  std::int64_t scratchpad_live = 0;  ///< bytes of tensors in this sum
  bool shared = true;  ///< false (too many kernels, or calls inside conditions): no two tensors share bytes
};

/// `granule`: alignment of addresses in bytes. Inputs and constants keep their bytes throughout, outputs from their
/// first store on. A temporary's bytes are reused once all kernels that use them complete before the next kernel
/// stores; overlapping kernels must wait for this completion. The program must outlive the plan.
MemoryPlan plan_memory(const Program& program, std::int64_t granule);

}  // namespace tilesim::program
