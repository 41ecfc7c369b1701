// A standalone DRAM of several channels that replays a trace.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tilesim/base/cancel.hpp"
#include "tilesim/engine/cache/slice.hpp"
#include "tilesim/engine/dram/channel.hpp"
#include "tilesim/engine/dram/mapping.hpp"
#include "tilesim/engine/dram/trace.hpp"

namespace tilesim::engine::dram {

/// An address range (tensor) with its own counts of hits and misses.
struct Region {
  std::string name;
  std::uint64_t address = 0, bytes = 0;
  bool resident = false;  ///< if any region is resident, all others bypass the cache
};

/// Reads [{"name": "weights", "address": 0, "bytes": "1 MiB", "resident": true}, ...] without overlaps.
std::vector<Region> read_regions(const Json& json);

struct RunOptions {
  std::int64_t inject_every = 1;  ///< request i of a channel is offered no earlier than cycle i * inject_every
  std::int64_t channels = 1;
  std::int64_t interleave_bytes = 256;
  ChannelHash channel_hash = ChannelHash::none;
  std::string mapping;  ///< empty: the part's mapping
  std::vector<Hash> hashes;
  std::optional<cache::Spec> cache;  ///< a slice in front of each channel
  std::vector<Region> regions;       ///< by address; requires a cache
  bool wrap = false;                 ///< addresses beyond the capacity wrap; otherwise an error
  CancelToken* cancel = nullptr;
};

struct ChannelResult {
  std::int64_t cycles = 0;
  Counters counters;
  std::vector<BankCounters> banks;
};

struct RegionResult {
  std::string name;  ///< empty: addresses outside all regions
  std::int64_t hits = 0, misses = 0, bypassed = 0;
};

struct RunResult {
  std::int64_t cycles = 0;  ///< of the slowest channel
  Counters counters;        ///< sum over all channels
  std::vector<ChannelResult> channels;
  std::vector<cache::Counters> slices;
  std::vector<RegionResult> regions;
};

/// Runs until every read has returned and every write is accepted.
RunResult run_trace(const Part& part, const Trace& trace, const RunOptions& options = {});

}  // namespace tilesim::engine::dram
