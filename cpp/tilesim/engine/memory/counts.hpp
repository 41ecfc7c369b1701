// Statistics of a memory, for results.
#pragma once

#include <cstdint>
#include <vector>

#include "tilesim/engine/memory/bandwidth.hpp"

namespace tilesim::engine {

namespace cache {
class Level;
}

class MemoryCounts {
 public:
  virtual ~MemoryCounts() = default;
  /// Busy cycles (core clock, rounded down) and bytes of each channel for all requests so far. With banks also what
  /// makes these bytes others than the requests': bytes + merged + forwarded = bytes of requests + padding.
  struct Channel {
    std::int64_t busy = 0, bytes = 0;
    std::int64_t merged = 0;     ///< of writes to a burst that waited to be written already
    std::int64_t forwarded = 0;  ///< of reads answered from a waiting write
    std::int64_t padding = 0;    ///< of whole bursts beyond what requests asked for
  };
  virtual std::vector<Channel> channels() const = 0;
  /// Events so far and femtojoules of each, where the memory knows more than the machine's energy per byte.
  struct Energy {
    const char* part;
    std::int64_t count, each;
  };
  virtual std::vector<Energy> energy() const { return {}; }
  /// From one region to another, and within one (from == to). Nothing for a memory of one region.
  struct Link { std::int64_t from = 0, to = 0, bytes = 0, busy = 0, sent = 0; };  ///< sent: from core to core
  virtual std::vector<Link> links() const { return {}; }
  /// Of DRAM channels: commands of each bank, channel by channel.
  struct Bank { std::int64_t activates = 0, columns = 0; };
  virtual std::vector<Bank> banks() const { return {}; }
  /// Caches before its channels, one of each region.
  virtual void add_caches(std::vector<const cache::Level*>& /*levels*/) const {}
  virtual std::int64_t padding() const { return 0; }  ///< bytes of whole bursts, beside those of channels
  /// Bytes that the channels have moved over time; none: not recorded.
  virtual const BandwidthSeries* series() const { return nullptr; }
};

}  // namespace tilesim::engine
