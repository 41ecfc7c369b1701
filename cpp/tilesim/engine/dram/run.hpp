// A memory of some channels by itself, fed from a trace.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tilesim/base/cancel.hpp"
#include "tilesim/engine/dram/channel.hpp"
#include "tilesim/engine/dram/mapping.hpp"
#include "tilesim/engine/dram/trace.hpp"

namespace tilesim::engine::dram {

struct RunOptions {
  std::int64_t inject_every = 1;  ///< request i of a channel is offered at cycle i * inject_every at the earliest
  std::int64_t channels = 1;
  std::int64_t interleave_bytes = 256;
  bool channel_hash = false;
  std::string mapping;  ///< empty: the part's
  std::vector<Hash> hashes;
  bool wrap = false;  ///< addresses beyond the capacity wrap; otherwise they are an error
  CancelToken* cancel = nullptr;
};

struct ChannelResult {
  std::int64_t cycles = 0;
  Counters counters;
  std::vector<Channel::BankCounters> banks;
};

struct RunResult {
  std::int64_t cycles = 0;  ///< of the slowest channel
  Counters counters;        ///< of all channels together
  std::vector<ChannelResult> channels;
};

/// Runs until every read has returned and every write is accepted.
RunResult run_trace(const Part& part, const Trace& trace, const RunOptions& options = {});

}  // namespace tilesim::engine::dram
