// Closed-form latencies of tile computes, one function per unit.
#pragma once

#include <optional>

#include "tilesim/tile/tile.hpp"

namespace tilesim {

TileLatency array_latency(const Share& machine, const Descriptor& descriptor, const History& history);
/// Multiply-add slots of all cells of the array during the product, including cells that partial tiles leave idle.
double array_multiply_adds(const ArraySpec& array, const Descriptor& descriptor);
/// Latency of the kernel of a vector compute whose moves are known; empty: no kernel shape has enough registers.
std::optional<TileLatency> kernel_latency(const Share& machine, const Descriptor& descriptor);
TileLatency vector_latency(const Share& machine, const Descriptor& descriptor);
/// Latency of a sort whose keys have at most 32 bits.
TileLatency sort_latency(const Share& machine, const Descriptor& descriptor);
TileLatency permute_latency(const Share& machine, const Descriptor& descriptor);
TileLatency indexed_latency(const Share& machine, const Descriptor& descriptor);

}  // namespace tilesim
