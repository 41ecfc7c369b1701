// Lowers consecutive products to one kernel.
#pragma once

#include "tilesim/compile/chain/find.hpp"

namespace tilesim::lower {

/// Tiles of rows and of hidden channels: what lies between the products stays in the scratchpad.
Lowered lower_chain(Context& context, const Kernel& kernel);

}  // namespace tilesim::lower
