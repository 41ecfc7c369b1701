// Cost of a complete choice of fusion groups: bytes moved between kernels, minus those that stay on chip.
#pragma once

#include <functional>
#include <vector>

#include "tilesim/compile/groups/groups.hpp"

namespace tilesim::lower {

class Moving {
 public:
  Moving(const Context& context, const Uses& uses, const Views& views);

  /// Estimated cycles. A kernel takes the longest of memory, on-chip copies and computing, plus its launch and a share
  /// of its memory time, even if hidden; each step of the longest dependence chain of kernels adds a wait. On one core,
  /// values between kernels stay in the scratchpad if residency allows it, in order of bytes saved; tiles get the
  /// remaining space.
  double cycles(const std::vector<Kernel>& kernels) const;

 private:
  struct Traffic { double memory = 0, copied = 0; };
  using Use = std::pair<std::size_t, double>;  ///< kernel, bytes
  double room_of(const Kernel& kernel) const;  ///< bytes available for values that stay during the kernel
  void keep(const std::vector<Kernel>& kernels, const std::map<ValueId, std::vector<Use>>& uses,
            std::vector<Traffic>& traffic) const;

  const Context& context_;
  const Uses& uses_;
  const Views& views_;
  GroupPrice price_;
  double room_ = 0;       ///< scratchpad bytes available for values
  double copy_rate_ = 1;  ///< of on-chip copies, in bytes per cycle
  double wait_ = 0;       ///< cycles from the last store of a kernel to the first tile of its reader
};

/// Cuts that make the whole function faster according to `Moving`, found by a bounded search.
Cuts cheapest_cuts(const std::function<Grouping(const Cuts&)>& grouped, const Moving& moving, const Context& context);

}  // namespace tilesim::lower
