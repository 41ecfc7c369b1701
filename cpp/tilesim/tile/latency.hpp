// Parts of the closed form, one per unit.
#pragma once

#include "tilesim/tile/tile.hpp"

namespace tilesim {

TileLatency array_latency(const Share& machine, const Descriptor& descriptor, const History& history);
TileLatency vector_latency(const Share& machine, const Descriptor& descriptor);
TileLatency permute_latency(const Share& machine, const Descriptor& descriptor);

}  // namespace tilesim
