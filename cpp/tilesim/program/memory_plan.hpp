// The addresses of tensors in off-chip memory. Temporaries share addresses by lifetime in the order of kernels. The
// plan also lists the tensors that stay in scratchpads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tilesim/program/memory_lifetimes.hpp"
#include "tilesim/program/program.hpp"

namespace tilesim::program {

/// Kernels are numbered in execution order. Every call numbers the kernels of its function again; a loop numbers its
/// kernels once for all trips.
struct MemoryPlan {
  struct Allocation {
    const Tensor* tensor = nullptr;
    std::int64_t address = 0, bytes = 0;
    std::int64_t first = 0, last = 0;  ///< first and last kernel that uses the bytes
    std::string alias_of;              ///< tensor whose bytes this one uses; empty: separate bytes
    Level level = Level::memory;       ///< scratchpad: the address is equal in all cores; bytes: the largest part
  };
  std::vector<Allocation> allocations;  ///< a tensor that several calls use has one entry per call, at one address
  std::int64_t kernels = 0;
  KernelNumbering numbers;
  std::int64_t peak_bytes = 0;
  std::int64_t live_bytes = 0;       ///< bytes of the largest set of tensors that are live together
  std::int64_t scratchpad_peak = 0;  ///< peak bytes of slots and tensors in a core
  std::int64_t scratchpad_live = 0;  ///< part of the peak that tensors take
  bool shared = true;  ///< false: too many kernels, or calls behind conditions; no two tensors share bytes
};

/// `granule`: alignment of addresses in bytes. Inputs and constants keep their bytes throughout, outputs from their
/// first store on. A temporary's bytes are reused if every kernel that uses them completes before the next one stores;
/// with overlapping kernels, if the program waits for that. The plan refers to the program.
MemoryPlan plan_memory(const Program& program, std::int64_t granule);

}  // namespace tilesim::program
