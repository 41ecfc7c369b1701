// Unfolding of convolution tiles, as the unit that moves them sees it.
#pragma once

#include "tilesim/mapping/nest.hpp"
#include "tilesim/tile/tile.hpp"

namespace tilesim::mapping {

Descriptor unfolding(const Problem& problem, const Nest& nest);

}  // namespace tilesim::mapping
