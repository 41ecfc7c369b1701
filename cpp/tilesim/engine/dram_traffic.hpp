// What a DRAM channel has moved, from its counters.
#pragma once

#include "tilesim/engine/dram/channel.hpp"
#include "tilesim/engine/memory.hpp"

namespace tilesim::engine {

/// All but `busy` and `padding`. Reads have been answered: only writes may wait.
inline MemorySystem::Channel traffic_of(const dram::Counters& counters, std::int64_t burst) {
  const std::int64_t written = counters.commands[static_cast<std::size_t>(dram::Command::write)];
  const std::int64_t read = counters.commands[static_cast<std::size_t>(dram::Command::read)];
  MemorySystem::Channel one;
  one.bytes = (read + written) * burst;
  one.merged = counters.merged * burst;
  one.forwarded = counters.forwarded * burst;
  one.waiting = (counters.writes - counters.merged - written) * burst;
  return one;
}

}  // namespace tilesim::engine
