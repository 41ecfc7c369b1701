// A slice of a cache before a DRAM channel: requests in order, misses overlapping, in time.
//
// A request enters when a port is free. A hit has its data after `hit_cycles`. A miss takes an MSHR and asks the
// channel for the sector; a request for a sector that is on its way waits with it. Without a free MSHR (or place to
// wait) the request waits, and those behind it. Tags change in the order of requests, so hits and misses do not depend
// on time. The channel decides when data returns; nothing is done for a cycle in which nothing happens.
#pragma once

#include <queue>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tilesim/engine/cache/tags.hpp"
#include "tilesim/engine/dram/channel.hpp"
#include "tilesim/engine/dram/mapping.hpp"

namespace tilesim::engine::cache {

struct Counters {
  std::int64_t reads = 0, writes = 0, hits = 0, misses = 0;  ///< requests; a hit may still wait for its sector
  std::int64_t merged = 0;                                   ///< hits on a sector that was on its way
  std::int64_t bypassed = 0;                                 ///< outside what the residency plan keeps
  std::int64_t fetched_bytes = 0, written_bytes = 0;         ///< between cache and memory, without what bypassed
  std::int64_t stalled_cycles = 0;                           ///< for want of an MSHR, a place to wait, or the channel
  std::int64_t latency_sum = 0, latency_max = 0;             ///< of reads, cycles
  std::int64_t dirty_bytes = 0;                              ///< left in the cache at the end
};

class Slice {
 public:
  /// The channel reports to the slice from now on, so the slice stays where it is.
  Slice(const Spec& spec, dram::Channel& channel, const dram::AddressMap& map, std::int64_t burst);
  Slice(const Slice&) = delete;
  Slice& operator=(const Slice&) = delete;

  /// A burst, due at a cycle; requests come in order. `address` is within the channel. Returns whether it hit.
  bool access(std::int64_t due, std::uint64_t address, bool write);
  /// A burst that passes by the cache.
  void bypass(std::int64_t due, std::uint64_t address, bool write);
  /// Until everything has returned; the cycle.
  std::int64_t finish();
  const Counters& counters() const { return counters_; }

 private:
  struct Fetch {
    std::int64_t left = 0, ready = -1;  ///< bursts on their way; when the last came
    std::int64_t targets = 0;
    std::vector<std::int64_t> readers;  ///< cycles at which they asked
  };
  std::int64_t enter(std::int64_t due);
  std::int64_t wait_for(std::int64_t at, std::uint64_t sector);
  void progress(std::int64_t at);
  void collect();
  void offer(std::int64_t at, std::uint64_t address, std::int64_t bytes, bool write, std::uint32_t tag);
  void fetch(std::int64_t at, std::uint64_t sector, bool reader);
  void answer(std::int64_t asked, std::int64_t ready);

  Spec spec_;
  Tags tags_;
  dram::Channel& channel_;
  const dram::AddressMap& map_;
  std::int64_t burst_, now_ = 0, used_ports_ = 0, last_ = 0;
  std::unordered_map<std::uint64_t, Fetch> fetches_;  ///< by sector address
  std::vector<std::uint64_t> sector_of_;              ///< by tag
  std::vector<std::uint32_t> free_tags_;
  /// Sectors that have come, by when; their MSHR is free from then on.
  std::priority_queue<std::pair<std::int64_t, std::uint64_t>, std::vector<std::pair<std::int64_t, std::uint64_t>>,
                      std::greater<>>
      come_;
  std::vector<dram::Completion> reported_;
  Counters counters_;
};

}  // namespace tilesim::engine::cache
