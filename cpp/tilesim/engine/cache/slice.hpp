// A slice of a cache in front of a memory channel: requests in order, with overlapping misses, over time.
//
// A request enters when a port is free. A hit has its data after `hit_cycles`. A miss takes an MSHR and requests the
// sector from the channel; another request for that sector waits with it. Without a free MSHR (or merge entry) the
// request waits, and so do later ones. Tags change in the order of requests, so hits and misses do not depend on time.
// The channel decides when data returns. Cycles without events cost nothing. As requests enter in order, the channel
// may advance to the entry of each as soon as that is known.
#pragma once

#include <queue>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tilesim/engine/cache/below.hpp"
#include "tilesim/engine/cache/tags.hpp"

namespace tilesim::engine::cache {

struct Counters {
  std::int64_t reads = 0, writes = 0, hits = 0, misses = 0;  ///< requests; a hit may still wait for its sector
  std::int64_t merged = 0;                                   ///< hits on a sector that was being fetched
  std::int64_t bypassed = 0;                                 ///< requests outside the residency plan
  std::int64_t fetched_bytes = 0, written_bytes = 0;         ///< between cache and memory, without bypasses
  std::int64_t bypass_read_bytes = 0, bypass_written_bytes = 0;
  std::int64_t stalled_cycles = 0;                ///< no free MSHR, merge entry or channel
  std::int64_t latency_sum = 0, latency_max = 0;  ///< of reads that do not bypass, cycles
  std::int64_t dirty_bytes = 0;                   ///< still dirty at the end
  std::int64_t port_cycles = 0;                   ///< port busy time, summed over ports

  void add(const Counters& other);
};

/// A request for a sector or less; a bypass has any number of bytes. Addresses are within the channel.
struct Access {
  std::int64_t due = 0;
  std::uint64_t address = 0;
  std::int64_t bytes = 0;
  bool write = false;
  std::uint32_t tag = no_tag;  ///< read: returned with the answer
  std::int32_t owner = 0;      ///< owner of the data, for write-backs
};

class Slice {
 public:
  Slice(const Spec& spec, Below& below);
  Slice(const Slice&) = delete;
  Slice& operator=(const Slice&) = delete;

  struct Outcome {
    bool hit = false;
    std::int64_t taken = 0;                 ///< cycle of its entry
    std::int64_t fetched = 0, through = 0;  ///< bytes requested from memory; bytes written through
  };
  /// Processes a request, in order. Answers of reads appear in `answers` as soon as they are known.
  Outcome access(const Access& request);
  /// A request that bypasses the cache. Returns the cycle of its entry.
  std::int64_t bypass(const Access& request);
  /// Dirty sectors that the last `access` evicted.
  const std::vector<Tags::Victim>& victims() const { return victims_; }
  /// Processes all events up to and including `cycle`, which must not precede the last entry.
  void advance(std::int64_t cycle);
  /// Predicts the pending answers if no further request arrives. Changes nothing.
  void outlook(std::vector<Below::Returned>& found);
  /// Runs until all data has returned. Returns the cycle.
  std::int64_t finish();

  std::int64_t now() const { return now_; }          ///< cycle of the last entry
  std::int64_t readers() const { return readers_; }  ///< number of reads without an answer
  Counters counters() const;
  const Spec& spec() const { return spec_; }

  std::vector<Below::Returned> answers;  ///< the owner clears it

 private:
  struct PendingRead {
    std::int64_t asked = 0;
    std::uint32_t tag = no_tag;
  };
  /// A sector being fetched, or a read that bypasses the cache.
  struct Pending {
    std::uint64_t sector = 0;
    std::int64_t left = 0, ready = -1;  ///< parts in flight; arrival of the last one
    std::int64_t targets = 0;
    bool fetch = false;
    std::vector<PendingRead> readers;
  };
  std::int64_t enter(std::int64_t due);
  void take_port(std::int64_t at, std::int64_t bytes);
  std::int64_t wait_for(std::int64_t at, bool any, std::uint64_t sector);
  std::int64_t wait_at_door(std::int64_t at, std::uint64_t sector, bool fetches);
  void progress(std::int64_t at);
  void collect();
  Pending& open(std::uint32_t& tag);
  void fetch(std::int64_t at, std::uint64_t sector, const Access& request);
  void serve_hit(std::int64_t at, std::uint64_t sector, const Access& request);
  void answer(const PendingRead& reader, std::int64_t ready);

  Spec spec_;
  Tags tags_;
  Below& below_;
  std::int64_t port_bytes_, now_ = 0, last_ = 0, readers_ = 0;
  std::vector<std::int64_t> ports_;                           ///< cycle from which each is free
  std::unordered_map<std::uint64_t, std::uint32_t> fetches_;  ///< by sector: index in pending_
  std::vector<Pending> pending_;                              ///< by tag
  std::vector<std::uint32_t> free_;
  /// Fetched sectors by arrival time; their MSHRs become free then.
  std::priority_queue<std::pair<std::int64_t, std::uint64_t>, std::vector<std::pair<std::int64_t, std::uint64_t>>,
                      std::greater<>>
      come_;
  std::vector<Tags::Victim> victims_;
  Counters counters_;
};

}  // namespace tilesim::engine::cache
