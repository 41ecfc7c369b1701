// Prefetch: issues loads without dependences before loads that wait for the previous kernel.
#pragma once

#include "tilesim/compile/passes/passes.hpp"

namespace tilesim::lower {

/// Prefetches weights. A queue starts its loads in order, so tiles of a weight that follow tiles of a value wait until
/// the previous kernel has stored this value. If two overlapping kernels leave scratchpad free, the first weight tiles
/// of the later kernel get a separate buffer and are loaded before any load that waits; memory must be able to load
/// them while the earlier kernel computes. The earlier kernel's loads from on-chip values then get deeper rings, so
/// that its last load does not wait for its last compute.
void load_ahead(Lowering& lowering);

}  // namespace tilesim::lower
