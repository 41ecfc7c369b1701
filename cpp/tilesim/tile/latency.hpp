// Closed-form latencies of tile computes, one part per unit.
#pragma once

#include <optional>

#include "tilesim/tile/tile.hpp"

namespace tilesim {

TileLatency array_latency(const Share& machine, const Descriptor& descriptor, const History& history);
/// Multiply-adds that the cells of the array do for the product, those of ragged rows, columns and depths included.
double array_multiply_adds(const ArraySpec& array, const Descriptor& descriptor);
/// As the kernel of a vector compute whose moves are known; none: no kernel has registers enough.
std::optional<TileLatency> kernel_latency(const Share& machine, const Descriptor& descriptor);
TileLatency vector_latency(const Share& machine, const Descriptor& descriptor);
/// Keys of at most 32 bits.
TileLatency sort_latency(const Share& machine, const Descriptor& descriptor);
TileLatency permute_latency(const Share& machine, const Descriptor& descriptor);
TileLatency indexed_latency(const Share& machine, const Descriptor& descriptor);

}  // namespace tilesim
