#include "tilesim/engine/dram/run.hpp"

#include <algorithm>

namespace tilesim::engine::dram {

namespace {

void add(Counters& sum, const Counters& part) {
  sum.reads += part.reads;
  sum.writes += part.writes;
  sum.forwarded += part.forwarded;
  sum.merged += part.merged;
  sum.hits += part.hits;
  sum.misses += part.misses;
  sum.conflicts += part.conflicts;
  sum.latency_sum += part.latency_sum;
  sum.latency_max = std::max(sum.latency_max, part.latency_max);
  for (std::size_t i = 0; i < sum.commands.size(); ++i) sum.commands[i] += part.commands[i];
  for (std::size_t i = 0; i < sum.latency.bins.size(); ++i) sum.latency.bins[i] += part.latency.bins[i];
}

void check(const Part& part, const Trace& trace, const RunOptions& options) {
  if (options.inject_every < 1 || options.inject_every > 1 << 20)
    throw UserError(
        {"wrong period of requests", "inject_every", std::to_string(options.inject_every), "1 to 1048576", {}});
  require(trace.addresses.size() == trace.writes.size(), "a trace without a direction for each address");
  if (options.wrap) return;
  const std::uint64_t capacity =
      static_cast<std::uint64_t>(part.capacity_bytes()) * static_cast<std::uint64_t>(options.channels);
  for (std::size_t i = 0; i < trace.addresses.size(); ++i)
    if (trace.addresses[i] >= capacity)
      throw UserError({"a request lies outside the memory",
                       "request " + std::to_string(i),
                       std::to_string(trace.addresses[i]),
                       "addresses below " + std::to_string(capacity),
                       {}});
}

// A channel runs as soon as a batch waits for it: offers stay in the nearest cache.
constexpr std::size_t batch = 128;

void feed(std::vector<Channel>& channels, const AddressMap& map, const ChannelMap& channel_map, const Trace& trace,
          const RunOptions& options) {
  constexpr std::size_t poll = 1 << 14;
  const bool timed = !trace.cycles.empty(), single = channels.size() == 1;
  std::vector<std::int64_t> due(channels.size(), 0);
  const std::size_t size = trace.addresses.size();
  for (std::size_t begin = 0; begin < size; begin += batch) {
    if (options.cancel && begin % poll == 0) {
      options.cancel->set_fraction(static_cast<double>(begin) / static_cast<double>(size));
      options.cancel->poll();
    }
    for (std::size_t i = begin; i < std::min(begin + batch, size); ++i) {
      ChannelMap::Target target{0, trace.addresses[i]};
      if (!single) target = channel_map.locate(target.address);
      const auto which = static_cast<std::size_t>(target.channel);
      const AddressMap::Location place = map.locate(target.address);
      std::int64_t at = due[which];
      due[which] += options.inject_every;
      if (timed) at = trace.cycles[i];
      channels[which].offer(
          {at, target.address, place.row, 0, static_cast<std::uint8_t>(place.bank), trace.writes[i] != 0});
      if (!single && channels[which].waiting() >= batch) channels[which].advance_until_accepted();
    }
    if (single) channels[0].advance_until_accepted();
  }
}

}  // namespace

RunResult run_trace(const Part& part, const Trace& trace, const RunOptions& options) {
  const AddressMap map(part, options.mapping, options.hashes);
  const ChannelMap channel_map(options.channels, std::max(options.interleave_bytes, part.burst_bytes),
                               options.channel_hash);
  check(part, trace, options);
  const auto count = static_cast<std::size_t>(options.channels);
  std::vector<Channel> channels(count, Channel(part));
  feed(channels, map, channel_map, trace, options);
  RunResult result;
  for (Channel& channel : channels) {
    ChannelResult one;
    one.cycles = channel.finish();
    one.counters = channel.counters();
    one.banks.assign(channel.banks().begin(), channel.banks().begin() + part.banks());
    add(result.counters, one.counters);
    result.cycles = std::max(result.cycles, one.cycles);
    result.channels.push_back(std::move(one));
  }
  return result;
}

}  // namespace tilesim::engine::dram
