// A cache slice in front of a memory channel. It processes requests in order; misses overlap in time.
//  A request enters when a port is free. The data of a hit is ready after `hit_cycles`. A miss allocates an MSHR and
// requests the sector from the channel; later requests for that sector wait on the same MSHR. If no MSHR (or no merge
// entry of an MSHR) is free, the request and all later ones wait. Tags change in the order of requests, so hits and
// misses do not depend on time. The channel decides when data returns. Cycles without events cost no simulation time.
// Because requests enter in order, the channel advances to the entry of a request as soon as this cycle is known.
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
  std::int64_t merged = 0;                                   ///< hits on a sector that was in flight
  std::int64_t bypassed = 0;                                 ///< requests that bypassed the cache
  std::int64_t fetched_bytes = 0, written_bytes = 0;         ///< between cache and memory, without bypasses
  std::int64_t bypass_read_bytes = 0, bypass_written_bytes = 0;
  std::int64_t stalled_cycles = 0;                ///< cycles of waiting for an MSHR, a merge entry or the channel
  std::int64_t latency_sum = 0, latency_max = 0;  ///< of reads that do not bypass, in cycles
  std::int64_t dirty_bytes = 0;                   ///< bytes of sectors that are dirty at the end of the run
  std::int64_t port_cycles = 0;                   ///< busy cycles, summed over ports

  void add(const Counters& other);
};

/// A request for at most one sector, or a bypass of any size. Addresses count from the start of the channel.
struct Access {
  std::int64_t due = 0;
  std::uint64_t address = 0;
  std::int64_t bytes = 0;
  bool write = false;
  std::uint32_t tag = no_tag;  ///< tag of a read, returned with its answer
  std::int32_t owner = 0;      ///< tensor that owns the data, for statistics of write-backs
};

class Slice {
 public:
  Slice(const Spec& spec, Below& below);
  Slice(const Slice&) = delete;
  Slice& operator=(const Slice&) = delete;

  struct Outcome {
    bool hit = false;
    std::int64_t taken = 0;                 ///< cycle in which the request enters the slice
    std::int64_t fetched = 0, through = 0;  ///< bytes requested from memory; bytes written through to memory
  };
  /// Processes the next request. The answer to a read is added to `answers` as soon as its cycle is known.
  Outcome access(const Access& request);
  /// Processes a request that bypasses the cache. Returns the cycle in which the request enters the slice.
  std::int64_t bypass(const Access& request);
  /// Dirty sectors that the last call of `access` evicted.
  const std::vector<Tags::Victim>& victims() const { return victims_; }
  /// Processes all events up to and including `cycle`, which must not precede the last entry.
  void advance(std::int64_t cycle);
  /// Adds to `found` the pending answers, assuming that no further request arrives. Changes no state.
  void outlook(std::vector<Below::Returned>& found);
  /// Advances until all data has returned; returns that cycle.
  std::int64_t finish();

  std::int64_t now() const { return now_; }          ///< cycle in which the last request entered
  std::int64_t readers() const { return readers_; }  ///< number of unanswered reads
  Counters counters() const;
  const Spec& spec() const { return spec_; }

  std::vector<Below::Returned> answers;  ///< the owner of this object clears the list

 private:
  struct PendingRead {
    std::int64_t asked = 0;
    std::uint32_t tag = no_tag;
  };
  /// A sector in flight from memory, or a read that bypasses the cache.
  struct Pending {
    std::uint64_t sector = 0;
    std::int64_t left = 0, ready = -1;  ///< number of parts in flight; cycle in which the last part arrived
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
  std::vector<std::int64_t> ports_;                           ///< per port: first cycle in which it is free
  std::unordered_map<std::uint64_t, std::uint32_t> fetches_;  ///< by sector address: index into pending_
  std::vector<Pending> pending_;                              ///< by tag
  std::vector<std::uint32_t> free_;
  /// Cycle and address of sectors on their way from memory. A sector's MSHR becomes free when the sector arrives.
  std::priority_queue<std::pair<std::int64_t, std::uint64_t>, std::vector<std::pair<std::int64_t, std::uint64_t>>,
                      std::greater<>>
      come_;
  std::vector<Tags::Victim> victims_;
  Counters counters_;
};

}  // namespace tilesim::engine::cache
