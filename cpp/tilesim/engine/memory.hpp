// Off-chip memory and the simple network to it, behind a small interface: a request is answered when it is offered.
// Networks of routers are in routed.hpp.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "tilesim/base/units.hpp"
#include "tilesim/engine/bandwidth.hpp"
#include "tilesim/engine/ports.hpp"
#include "tilesim/machine/machine.hpp"

namespace tilesim::engine {

namespace dram {
struct Part;
}

/// A piece of a transfer: `bytes` of bursts from `address` on. Times are cycles of the core clock.
struct Request {
  std::int64_t core = 0;
  std::int64_t address = 0;
  std::int64_t bytes = 0;
  bool write = false;
};

class MemorySystem {
 public:
  virtual ~MemorySystem() = default;
  /// Offers a request at `now`. Returns the core cycle at which it is complete (data at the core; a write at the
  /// ordering point), or nothing when queues are full: then `retry` is the first cycle at which another try can
  /// succeed.
  virtual std::optional<std::int64_t> submit(const Request& request, std::int64_t now, std::int64_t& retry) = 0;
  virtual Ports* ports() = 0;  ///< of the simple network, which sends use too
  /// Busy cycles (core clock, rounded down) and bytes of each channel so far.
  struct Channel { std::int64_t busy = 0, bytes = 0; };
  virtual std::vector<Channel> channels() const = 0;
  /// Of DRAM channels: commands of each bank, channel by channel.
  struct Bank { std::int64_t activates = 0, columns = 0; };
  virtual std::vector<Bank> banks() const { return {}; }
  /// Bytes that the channels have moved over time; none: not recorded.
  virtual const BandwidthSeries* series() const { return nullptr; }
};

/// Latency plus bandwidth per channel; first come, first served; finite queues. Reads and writes share a channel.
std::unique_ptr<MemorySystem> simple_memory(const Machine& machine);
/// DRAM channels of a part: banks, rows, queues, refresh. Bandwidth and latency are the part's.
std::unique_ptr<MemorySystem> bank_memory(const Machine& machine, const dram::Part& part);
/// No queueing, no latency.
std::unique_ptr<MemorySystem> ideal_memory(const Machine& machine);

}  // namespace tilesim::engine
