// Closed-form latencies of tile computes, one part per unit.
#pragma once

#include <optional>

#include "tilesim/tile/tile.hpp"

namespace tilesim {

TileLatency array_latency(const Share& machine, const Descriptor& descriptor, const History& history);
/// Multiply-add slots of all cells of the array during the product, with cells that ragged tiles leave idle.
double array_multiply_adds(const ArraySpec& array, const Descriptor& descriptor);
/// Latency of the kernel of a vector compute with known moves; empty: no kernel has enough registers.
std::optional<TileLatency> kernel_latency(const Share& machine, const Descriptor& descriptor);
TileLatency vector_latency(const Share& machine, const Descriptor& descriptor);
/// Latency of a sort with keys of at most 32 bits.
TileLatency sort_latency(const Share& machine, const Descriptor& descriptor);
TileLatency permute_latency(const Share& machine, const Descriptor& descriptor);
TileLatency indexed_latency(const Share& machine, const Descriptor& descriptor);

}  // namespace tilesim
