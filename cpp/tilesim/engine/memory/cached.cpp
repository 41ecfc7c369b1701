#include "tilesim/engine/memory/cached.hpp"

#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/engine/memory/dram_traffic.hpp"

namespace tilesim::engine {

namespace {
constexpr std::int64_t picoseconds = 1'000'000'000'000;
}

CachedChannels::CachedChannels(const Machine& machine, const dram::Part* part, cache::Tensors& tensors)
    : spread(machine.memory.channels, std::max(machine.memory.interleave_bytes, machine.memory.burst_bytes),
             dram::channel_hash_of(machine.memory.channel_hash)),
      unit(std::max(machine.memory.interleave_bytes, machine.memory.burst_bytes)),
      burst(part ? part->burst_bytes : machine.memory.burst_bytes),
      core_(machine.core.clock),
      level(machine.memory.cache, tensors) {
  const MemorySpec& memory = machine.memory;
  const Clock clock = machine.network.clock;
  const std::int64_t passed =
      memory.cache.bytes_per_cycle > 0 ? memory.cache.bytes_per_cycle : memory.cache.sector_bytes;
  patience_cycles = ceil_div(memory.buffer_bytes, passed * memory.cache.ports);
  if (part == nullptr) {
    rate_ =
        std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(memory.bytes_per_second) *
                                                            memory.efficiency / static_cast<double>(memory.channels)));
    const auto latency = static_cast<std::int64_t>(
        (static_cast<Int128>(memory.latency_ps) * clock.hertz + picoseconds - 1) / picoseconds);
    for (std::int64_t i = 0; i < memory.channels; ++i)
      level.add_slice(
          std::make_unique<cache::SimpleBelow>(cache::SimpleBelow::Spec{clock, {rate_}, latency, memory.buffer_bytes}));
    return;
  }
  if (memory.cache.sector_bytes % part->burst_bytes != 0)
    throw UserError({"a sector must be a whole number of the part's bursts",
                     "memory.cache.sector",
                     std::to_string(memory.cache.sector_bytes) + " B",
                     "a multiple of " + std::to_string(part->burst_bytes) + " B (" + part->name + ")",
                     {}});
  energy_ = part->energy;
  clock_ps_ = part->clock_ps;
  burst_cycles_ = part->burst_cycles;
  banks_count_ = part->banks();
  banks_known_ = true;
  map_ = std::make_unique<dram::AddressMap>(*part, memory.mapping, dram::bank_hashes(memory.bank_hash));
  const cache::Scale to_ticks(picoseconds, static_cast<Int128>(clock.hertz) * part->clock_ps);
  answer_cycles = std::max<std::int64_t>(1, to_ticks.inverse().up(part->read_latency) - 1);
  for (std::int64_t i = 0; i < memory.channels; ++i) {
    dram_.emplace_back(*part);
    level.add_slice(std::make_unique<cache::BankBelow>(dram_.back(), *map_, burst, to_ticks));
  }
}

std::vector<MemorySystem::Channel> CachedChannels::channels() const {
  std::vector<MemorySystem::Channel> result;
  for (std::size_t i = 0; i < level.size(); ++i) {
    if (!banks_known_) {
      const std::int64_t bytes = level.below(i).moved;
      result.push_back({static_cast<std::int64_t>(static_cast<Int128>(bytes) * core_.hertz / rate_), bytes});
      continue;
    }
    MemorySystem::Channel one = traffic_of(drained(dram_[i]), burst);
    const std::int64_t bursts = one.bytes / burst;
    one.busy =
        static_cast<std::int64_t>(static_cast<Int128>(bursts * burst_cycles_ * clock_ps_) * core_.hertz / picoseconds);
    one.padding = level.below(i).padding;
    result.push_back(one);
  }
  return result;
}

std::vector<MemorySystem::Bank> CachedChannels::banks() const {
  std::vector<MemorySystem::Bank> result;
  for (const dram::Channel& channel : dram_) add_banks(channel, banks_count_, result);
  return result;
}

std::vector<MemorySystem::Energy> CachedChannels::energy() const {
  if (!energy_.known()) return {};
  CommandCounts sum{};
  for (const dram::Channel& channel : dram_) add_commands(channel, sum);
  return command_energy(energy_, sum);
}

}  // namespace tilesim::engine
