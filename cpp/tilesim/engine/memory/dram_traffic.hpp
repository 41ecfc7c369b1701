// Traffic of a DRAM channel by its counters.
#pragma once

#include "tilesim/engine/dram/channel.hpp"
#include "tilesim/engine/memory/memory.hpp"

namespace tilesim::engine {

/// The channel after all waiting requests, including reads that another copy has answered.
inline dram::Channel drained(dram::Channel channel) {
  channel.report_to(nullptr);
  channel.drain();
  return channel;
}

/// Counts of a drained channel, except `busy` and `padding`.
inline MemorySystem::Channel traffic_of(const dram::Channel& channel, std::int64_t burst) {
  const dram::Counters& counters = channel.counters();
  MemorySystem::Channel one;
  one.bytes = (counters.commands[static_cast<std::size_t>(dram::Command::read)] +
               counters.commands[static_cast<std::size_t>(dram::Command::write)]) *
              burst;
  one.merged = counters.merged * burst;
  one.forwarded = counters.forwarded * burst;
  return one;
}

/// Appends the commands of each bank.
inline void add_banks(const dram::Channel& channel, std::int64_t banks, std::vector<MemorySystem::Bank>& all) {
  const dram::Channel end = drained(channel);
  for (std::size_t b = 0; b < static_cast<std::size_t>(banks); ++b)
    all.push_back({end.banks()[b].activates, end.banks()[b].columns});
}

}  // namespace tilesim::engine
