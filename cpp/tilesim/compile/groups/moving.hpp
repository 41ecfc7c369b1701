// Cost of a complete choice of fusion groups: bytes that move between kernels, without bytes that stay on chip.
#pragma once

#include <functional>
#include <vector>

#include "tilesim/compile/groups/groups.hpp"

namespace tilesim::lower {

class Moving {
 public:
  Moving(const Context& context, const Uses& uses, const Views& views);

  /// Estimated cycles. A kernel takes the longest of memory, on-chip copies and compute, plus its launch and a share of
  /// its memory time, even if compute hides it. Each step of the longest dependence chain of kernels adds a wait. On
  /// one core, values between kernels stay in the scratchpad if residency allows it, in order of bytes saved; tiles use
  /// the remaining space.
  double cycles(const std::vector<Kernel>& kernels) const;

 private:
  struct Traffic { double memory = 0, copied = 0; };
  using Use = std::pair<std::size_t, double>;  ///< kernel, bytes
  double room_of(const Kernel& kernel) const;  ///< bytes for values that stay on chip during the kernel
  void keep(const std::vector<Kernel>& kernels, const std::map<ValueId, std::vector<Use>>& uses,
            std::vector<Traffic>& traffic) const;

  const Context& context_;
  const Uses& uses_;
  const Views& views_;
  GroupPrice price_;
  double room_ = 0;       ///< scratchpad bytes for values
  double copy_rate_ = 1;  ///< rate of on-chip copies in bytes per cycle
  double wait_ = 0;       ///< cycles from a kernel's last store to the first tile of its reader
};

/// The cuts with which the function is fastest according to `Moving`; a bounded search finds them.
Cuts cheapest_cuts(const std::function<Grouping(const Cuts&)>& grouped, const Moving& moving, const Context& context);

}  // namespace tilesim::lower
