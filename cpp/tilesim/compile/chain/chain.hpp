// Lowers consecutive products to one kernel.
#pragma once

#include "tilesim/compile/chain/find.hpp"

namespace tilesim::lower {

/// Lowers a chain in tiles of rows and hidden channels; intermediate values stay in the scratchpad.
Lowered lower_chain(Context& context, const Kernel& kernel);

}  // namespace tilesim::lower
