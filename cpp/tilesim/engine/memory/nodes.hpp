// Memory channels as nodes of a network of routers, in cycles of that network.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "tilesim/engine/memory/memory.hpp"

namespace tilesim::engine {

/// Memory channels as nodes; cycles are those of the network.
class MemoryNodes {
 public:
  struct Arrival {
    std::uint32_t packet = 0;
    std::uint64_t address = 0;  ///< address within the channel
    std::uint32_t bytes = 0;
    bool write = false;
    Pattern* pattern = nullptr;  ///< pattern of its transfer, for banks or a cache
  };
  struct Answer {
    std::int64_t cycle = 0;
    std::uint32_t packet = 0;
  };

  explicit MemoryNodes(const Machine& machine)
      : series(static_cast<std::size_t>(machine.memory.channels), machine.network.clock.hertz),
        answers(static_cast<std::size_t>(machine.memory.channels)) {}
  virtual ~MemoryNodes() = default;
  virtual void take(std::size_t channel, const Arrival& arrival, std::int64_t cycle) = 0;
  /// Processes all requests before `cycle`; afterwards all answers before cycle + step() are known.
  virtual void advance(std::int64_t cycle) = 0;
  virtual std::int64_t step() const = 0;
  virtual bool active() const = 0;  ///< whether advance() has work
  virtual std::vector<MemorySystem::Channel> channels(Clock core) const = 0;
  virtual std::vector<MemorySystem::Bank> banks() const { return {}; }
  virtual std::vector<MemorySystem::Energy> energy() const { return {}; }
  virtual const cache::Level* cache() const { return nullptr; }

  BandwidthSeries series;
  std::vector<std::deque<Answer>> answers;  ///< per channel, ordered by cycle
};

/// Nodes without latency and queueing, to measure the network alone.
std::unique_ptr<MemoryNodes> ideal_nodes(const Machine& machine);
/// Nodes with latency and bandwidth per channel.
std::unique_ptr<MemoryNodes> simple_nodes(const Machine& machine);
/// Nodes with DRAM channels and banks.
std::unique_ptr<MemoryNodes> bank_nodes(const Machine& machine, const dram::Part& part);

/// Nodes with a cache; `part`: part of DRAM channels, null for simple ones. `tensors` must outlive the nodes.
std::unique_ptr<MemoryNodes> cached_nodes(const Machine& machine, const dram::Part* part, cache::Tensors& tensors);

}  // namespace tilesim::engine
