// Finds the loads of a tensor's tiles in a kernel, and rewrites the kernel so that a separate buffer holds the first
// tiles.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tilesim/program/program.hpp"

namespace tilesim::lower {

/// A ring filled by one load (or one load per tensor) at one place in the kernel's loop nest.
struct AheadRing {
  struct Loop {
    std::string index;
    std::int64_t trips = 1;
  };
  std::string slot, queue;
  std::vector<std::string> tensors;  ///< tensors from which a tile is loaded
  std::vector<Loop> loops;           ///< loops around its acquire, outermost first
  program::Block* block = nullptr;   ///< block that acquires it
  std::size_t first = 0, end = 0;    ///< range of the acquire, loads and commits in the block
  std::int64_t commits = 0;          ///< commits per tile
  std::int64_t tiles = 1;
  bool plain = true;  ///< acquired and filled at one place only: its tiles can be prefetched
};

/// Rings of the kernel's own slots that loads fill; those within conditions are not plain.
std::vector<AheadRing> ahead_rings(program::Scope& kernel);

/// Number of tiles loaded into each slot of the kernel, counted up to `most`.
std::map<std::string, std::int64_t> loaded_tiles(const program::Scope& kernel, std::int64_t most);

/// Moves the loads of tiles [0, count) of the ring into a slot `ahead`, before all other loads.
void take_ahead(program::Scope& kernel, const AheadRing& ring, std::int64_t count);

}  // namespace tilesim::lower
