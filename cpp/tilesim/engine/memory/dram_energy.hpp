// Energy of DRAM channels by command.
#pragma once

#include <array>
#include <vector>

#include "tilesim/engine/dram/channel.hpp"
#include "tilesim/engine/memory/dram_traffic.hpp"
#include "tilesim/engine/memory/memory.hpp"

namespace tilesim::engine {

using CommandCounts = std::array<std::int64_t, dram::command_count>;

/// Adds a channel's commands, including future ones of waiting requests, which cost the same.
inline void add_commands(const dram::Channel& channel, CommandCounts& sum) {
  const dram::Channel end = drained(channel);
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += end.counters().commands[i];
}

inline std::vector<MemorySystem::Energy> command_energy(const dram::CommandEnergy& energy, const CommandCounts& sum) {
  if (!energy.known()) return {};
  const auto count = [&](dram::Command command) { return sum[static_cast<std::size_t>(command)]; };
  std::vector<MemorySystem::Energy> parts{{"DRAM activations", count(dram::Command::activate), energy.activate},
                                          {"DRAM read bursts", count(dram::Command::read), energy.read},
                                          {"DRAM write bursts", count(dram::Command::write), energy.write}};
  if (energy.refresh_all >= 0)
    parts.push_back({"DRAM refreshes", count(dram::Command::refresh_all), energy.refresh_all});
  if (energy.refresh_bank >= 0)
    parts.push_back({"DRAM bank refreshes", count(dram::Command::refresh_bank), energy.refresh_bank});
  return parts;
}

}  // namespace tilesim::engine
