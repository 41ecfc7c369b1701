// Finds the loads of a tensor's tiles in a kernel, and rewrites the kernel to load the first tiles into a separate
// buffer.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tilesim/program/program.hpp"

namespace tilesim::lower {

/// A ring that one load (or one load per tensor) fills, at one place in the kernel's loop nest.
struct AheadRing {
  struct Loop {
    std::string index;
    std::int64_t trips = 1;
  };
  std::string slot, queue;
  std::vector<std::string> tensors;  ///< tensors from which a tile is loaded
  std::vector<Loop> loops;           ///< loops around its acquire, outermost first
  program::Block* block = nullptr;   ///< block that contains its acquire
  std::size_t first = 0, end = 0;    ///< range of acquire, loads and commits in the block
  std::int64_t commits = 0;          ///< commits per tile
  std::int64_t tiles = 1;
  bool plain = true;  ///< acquired and filled at one place only: its tiles can be prefetched
};

/// The kernel's slots that loads fill. A slot that is filled inside a condition is not `plain`.
std::vector<AheadRing> ahead_rings(program::Scope& kernel);

/// Per slot of the kernel: number of tiles that loads fill, at most `most`.
std::map<std::string, std::int64_t> loaded_tiles(const program::Scope& kernel, std::int64_t most);

/// Moves the loads of tiles [0, count) of the ring into a slot `ahead`, in front of all other loads.
void take_ahead(program::Scope& kernel, const AheadRing& ring, std::int64_t count);

}  // namespace tilesim::lower
