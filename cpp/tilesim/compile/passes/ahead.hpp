// Prefetch: loads that wait for nothing are issued before loads that wait for the previous kernel.
#pragma once

#include "tilesim/compile/passes/passes.hpp"

namespace tilesim::lower {

/// A queue starts its loads in order: a weight's tiles behind a value's come only once the kernel before has made the
/// value. Where scratchpad is left beside two kernels that overlap, the first tiles of the later one's weight get a
/// buffer of their own and are loaded before all that waits; as many as memory has time for while the earlier one
/// computes. For that, what the earlier one loads from the chip itself gets deeper rings, so that its last load does
/// not wait for its last compute.
void load_ahead(Lowering& lowering);

}  // namespace tilesim::lower
