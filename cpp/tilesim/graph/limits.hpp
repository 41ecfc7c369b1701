// What a graph may be at most, so that whatever reads it needs no limits of its own.
#pragma once

namespace tilesim {

/// Levels of functions that call each other: readers follow calls by calls of their own.
inline constexpr int deepest_calls = 256;

}  // namespace tilesim
