// The descriptor of the cross-lane unit's compute that unfolds a convolution tile.
#pragma once

#include "tilesim/mapping/nest.hpp"
#include "tilesim/tile/tile.hpp"

namespace tilesim::mapping {

Descriptor unfolding(const Problem& problem, const Nest& nest);

}  // namespace tilesim::mapping
