// Orders the kernels of a function.
#pragma once

#include <vector>

#include "tilesim/compile/groups/groups.hpp"

namespace tilesim::lower {

/// Reorders the kernels if a bounded search finds an order with lower peak bytes of values between kernels. Producers
/// stay before readers. A function that overwrites values keeps its order, because readers of the old value must come
/// first.
std::vector<Kernel> ordered_for_peak(std::vector<Kernel> kernels, const Context& context, const Uses& uses,
                                     const Views& views);

}  // namespace tilesim::lower
