// Unfolding of convolution tiles, as a descriptor for the cross-lane unit.
#pragma once

#include "tilesim/mapping/nest.hpp"
#include "tilesim/tile/tile.hpp"

namespace tilesim::mapping {

Descriptor unfolding(const Problem& problem, const Nest& nest);

}  // namespace tilesim::mapping
