// Prefetch: loads that wait for nothing are issued before loads that wait for the previous kernel.
#pragma once

#include "tilesim/compile/passes/passes.hpp"

namespace tilesim::lower {

/// Prefetches weights. A queue starts its loads in order, so a weight's tiles queued after a value's tiles wait until
/// the previous kernel has stored the value. If two overlapping kernels leave scratchpad free, the first weight tiles
/// of the later kernel get a separate buffer and are loaded before any load that waits: as many as memory can load
/// while the earlier kernel computes. Loads of the earlier kernel from on-chip values then get deeper rings, so that
/// its last load does not wait for its last compute.
void load_ahead(Lowering& lowering);

}  // namespace tilesim::lower
