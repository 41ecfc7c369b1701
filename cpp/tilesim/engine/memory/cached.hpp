// Memory channels with a cache slice in front of each, in cycles of the network's clock.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "tilesim/engine/cache/level.hpp"
#include "tilesim/engine/memory/dram_energy.hpp"
#include "tilesim/engine/memory/memory.hpp"

namespace tilesim::engine {

class CachedChannels {
 public:
  /// `part`: part of DRAM channels; null: channels with latency and bandwidth.
  CachedChannels(const Machine& machine, const dram::Part* part, cache::Tensors& tensors);
  CachedChannels(const CachedChannels&) = delete;
  CachedChannels& operator=(const CachedChannels&) = delete;

  std::vector<MemorySystem::Channel> channels() const;
  std::vector<MemorySystem::Bank> banks() const;
  std::vector<MemorySystem::Energy> energy() const;

  dram::ChannelMap spread;
  std::int64_t unit;  ///< interleaving in bytes
  std::int64_t burst;
  std::int64_t answer_cycles = 0;    ///< lead time between knowing and returning an answer; 0: none
  std::int64_t patience_cycles = 0;  ///< time that requests may wait in front of a slice

 private:
  Clock core_;
  dram::CommandEnergy energy_;
  bool banks_known_ = false;
  std::int64_t clock_ps_ = 1, burst_cycles_ = 0, banks_count_ = 0, rate_ = 1;
  std::unique_ptr<dram::AddressMap> map_;
  std::deque<dram::Channel> dram_;  ///< declared before `level`, whose slices refer to it

 public:
  cache::Level level;
};

}  // namespace tilesim::engine
