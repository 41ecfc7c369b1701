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
  /// Busy cycles (core clock, rounded down) and bytes of each channel over all requests. DRAM channels move other bytes
  /// than requested: bytes = requested + padding - merged - forwarded.
  struct Channel {
    std::int64_t busy = 0, bytes = 0;
    std::int64_t merged = 0;     ///< bytes of writes merged into a waiting write
    std::int64_t forwarded = 0;  ///< bytes of reads answered by a waiting write
    std::int64_t padding = 0;    ///< bytes of bursts beyond the requests
  };
  virtual std::vector<Channel> channels() const = 0;
  /// Number of events and femtojoules per event; empty if only the machine's energy per byte is known.
  struct Energy {
    const char* part;
    std::int64_t count, each;
  };
  virtual std::vector<Energy> energy() const { return {}; }
  /// Traffic between two regions, or within one (from == to). Empty for a single region.
  struct Link { std::int64_t from = 0, to = 0, bytes = 0, busy = 0, sent = 0; };  ///< sent: bytes between cores
  virtual std::vector<Link> links() const { return {}; }
  /// Commands of each DRAM bank, channel by channel.
  struct Bank { std::int64_t activates = 0, columns = 0; };
  virtual std::vector<Bank> banks() const { return {}; }
  /// Appends the caches in front of the channels, one per region.
  virtual void add_caches(std::vector<const cache::Level*>& /*levels*/) const {}
  virtual std::int64_t padding() const { return 0; }  ///< bytes of bursts beyond requests, not counted by channels
  /// Bytes moved by the channels over time; null: not recorded.
  virtual const BandwidthSeries* series() const { return nullptr; }
};

}  // namespace tilesim::engine
