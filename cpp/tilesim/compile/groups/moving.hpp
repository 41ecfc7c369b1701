// Cost of a whole choice of fusion groups: bytes between kernels, less those that stay on chip.
#pragma once

#include <functional>
#include <vector>

#include "tilesim/compile/groups/groups.hpp"

namespace tilesim::lower {

class Moving {
 public:
  Moving(const Context& context, const Uses& uses, const Views& views);

  /// Of each kernel the longest of memory, copies within the chip and computing, its launch, and a part of the time of
  /// its bytes, hidden or not; and a wait for each of the longest chain of kernels that read from each other. On one
  /// core, values between kernels stay in the scratchpad where residency may keep them, in the order of what they save;
  /// tiles have the rest.
  double cycles(const std::vector<Kernel>& kernels) const;

 private:
  struct Traffic { double memory = 0, copied = 0; };
  using Use = std::pair<std::size_t, double>;  ///< kernel, bytes
  double room_of(const Kernel& kernel) const;  ///< for values that stay meanwhile
  void keep(const std::vector<Kernel>& kernels, const std::map<ValueId, std::vector<Use>>& uses,
            std::vector<Traffic>& traffic) const;

  const Context& context_;
  const Uses& uses_;
  const Views& views_;
  GroupPrice price_;
  double room_ = 0;       ///< bytes of the scratchpad that values may have
  double copy_rate_ = 1;  ///< bytes per cycle
  double wait_ = 0;       ///< cycles from the last store of a kernel to the first tile of one that reads it
};

/// What rules took and the whole function takes less without, by `Moving`; as far as a bounded search finds it.
Cuts cheapest_cuts(const std::function<Grouping(const Cuts&)>& grouped, const Moving& moving, const Context& context);

}  // namespace tilesim::lower
