// Size limits of a graph. Readers of a valid graph need no separate limits.
#pragma once

#include <cstdint>

namespace tilesim {

/// Maximum depth of nested calls: readers follow calls recursively.
inline constexpr int deepest_calls = 256;
/// Maximum number of devices in a mesh or a graph.
inline constexpr std::int64_t most_devices = std::int64_t{1} << 24;

}  // namespace tilesim
