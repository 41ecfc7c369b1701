// Orders the kernels of a function.
#pragma once

#include <vector>

#include "tilesim/compile/groups/groups.hpp"

namespace tilesim::lower {

/// The kernels, which stand in an order where producers precede readers, in one that needs fewer bytes for values
/// between them at its peak, where a bounded search finds one. A function that overwrites values stays as it is: who
/// reads the old one is before.
std::vector<Kernel> ordered_for_peak(std::vector<Kernel> kernels, const Context& context, const Uses& uses,
                                     const Views& views);

}  // namespace tilesim::lower
