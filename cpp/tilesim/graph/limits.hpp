// Size limits of graphs. The check enforces them, so that code on checked graphs needs no other limits.
#pragma once

#include <cstdint>

namespace tilesim {

/// Maximum depth of nested calls, because code follows calls recursively.
inline constexpr int deepest_calls = 256;
/// Maximum number of devices in a mesh or a graph.
inline constexpr std::int64_t most_devices = std::int64_t{1} << 24;

}  // namespace tilesim
