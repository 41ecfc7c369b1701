// Finds where a kernel loads the tiles of a tensor, and rewrites the kernel so that a separate buffer holds the first
// tiles.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tilesim/program/program.hpp"

namespace tilesim::lower {

/// A ring whose tiles come from one load, or one of each of several tensors, in one place of the kernel's loops.
struct AheadRing {
  struct Loop {
    std::string index;
    std::int64_t trips = 1;
  };
  std::string slot, queue;
  std::vector<std::string> tensors;  ///< that a tile is loaded from
  std::vector<Loop> loops;           ///< around its acquire, outer to inner
  program::Block* block = nullptr;   ///< where it is acquired
  std::size_t first = 0, end = 0;    ///< of the block: acquire, loads and commits
  std::int64_t commits = 0;          ///< per tile
  std::int64_t tiles = 1;
  bool plain = true;  ///< acquired once in the text and filled there: the tiles can come from elsewhere
};

/// Rings of the kernel's own slots that a load fills; within conditions too, which are not plain.
std::vector<AheadRing> ahead_rings(program::Scope& kernel);

/// How many tiles loads bring into each slot of the kernel, counting no further than `most`.
std::map<std::string, std::int64_t> loaded_tiles(const program::Scope& kernel, std::int64_t most);

/// Tiles [0, count) of the ring into a slot `ahead`, loaded before all else.
void take_ahead(program::Scope& kernel, const AheadRing& ring, std::int64_t count);

}  // namespace tilesim::lower
