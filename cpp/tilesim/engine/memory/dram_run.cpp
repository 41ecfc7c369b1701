#include "tilesim/engine/memory/dram_run.hpp"

#include <algorithm>
#include <deque>

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
  for (std::size_t i = 0; i < trace.cycles.size(); ++i)
    if (trace.cycles[i] < 0 || trace.cycles[i] > latest_cycle)
      throw UserError({"a request comes too late",
                       "request " + std::to_string(i),
                       std::to_string(trace.cycles[i]),
                       "cycles from 0 to 2^61",
                       {}});
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

/// Finds the region of an address; the last region has no name and contains all other addresses.
class Regions {
 public:
  explicit Regions(const std::vector<Region>& regions) : regions_(regions) {
    for (const Region& region : regions) {
      results.push_back({region.name});
      plan_ |= region.resident;
    }
    results.emplace_back();
  }
  std::size_t find(std::uint64_t address) const {
    auto after = std::upper_bound(regions_.begin(), regions_.end(), address,
                                  [](std::uint64_t at, const Region& region) { return at < region.address; });
    if (after == regions_.begin()) return regions_.size();
    --after;
    return address - after->address < after->bytes ? static_cast<std::size_t>(after - regions_.begin())
                                                   : regions_.size();
  }
  bool kept(std::size_t region) const { return !plan_ || (region < regions_.size() && regions_[region].resident); }

  std::vector<RegionResult> results;

 private:
  const std::vector<Region>& regions_;
  bool plan_ = false;
};

std::vector<cache::Counters> run_cached(std::vector<Channel>& channels, const AddressMap& map,
                                        const ChannelMap& channel_map, const Trace& trace, const RunOptions& options,
                                        std::int64_t burst, RunResult& result) {
  std::deque<cache::BankBelow> below;  // a deque, because channels refer to elements
  std::deque<cache::Slice> slices;
  for (Channel& channel : channels) {
    below.emplace_back(channel, map, burst, cache::Scale());
    slices.emplace_back(*options.cache, below.back());
  }
  Regions regions(options.regions);
  std::vector<std::int64_t> due(channels.size(), 0);
  for (std::size_t i = 0; i < trace.addresses.size(); ++i) {
    if (options.cancel && i % (1 << 14) == 0) options.cancel->poll();
    ChannelMap::Target target{0, trace.addresses[i]};
    if (channels.size() > 1) target = channel_map.locate(target.address);
    const auto which = static_cast<std::size_t>(target.channel);
    const std::int64_t at = trace.cycles.empty() ? due[which] : trace.cycles[i];
    due[which] += options.inject_every;
    const std::size_t region = regions.find(trace.addresses[i]);
    RegionResult& counted = regions.results[region];
    const cache::Access request{at, target.address, burst, trace.writes[i] != 0, cache::no_tag, 0};
    if (!regions.kept(region)) {
      slices[which].bypass(request);
      ++counted.bypassed;
    } else {
      ++(slices[which].access(request).hit ? counted.hits : counted.misses);
    }
  }
  std::vector<cache::Counters> counters;
  for (cache::Slice& slice : slices) {
    result.cycles = std::max(result.cycles, slice.finish());
    counters.push_back(slice.counters());
  }
  result.regions = std::move(regions.results);
  return counters;
}

// Requests per batch. A channel runs after each batch: offers then stay in the first-level cache.
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
    const std::size_t end = std::min(begin + batch, size);
    const auto request = [&](std::size_t i, const ChannelMap::Target& target)
                             __attribute__((always_inline)) -> Request {
      const auto which = static_cast<std::size_t>(target.channel);
      const AddressMap::Location place = map.locate(target.address);
      const std::int64_t at = timed ? trace.cycles[i] : due[which];
      due[which] += options.inject_every;
      return {at, target.address, place.row, 0, static_cast<std::uint8_t>(place.bank), trace.writes[i] != 0};
    };
    if (single) {
      channels[0].visit([&](auto& channel) {
        for (std::size_t i = begin; i < end; ++i) channel.offer(request(i, {0, trace.addresses[i]}));
        channel.advance_until_accepted();
      });
      continue;
    }
    for (std::size_t i = begin; i < end; ++i) {
      const ChannelMap::Target target = channel_map.locate(trace.addresses[i]);
      channels[static_cast<std::size_t>(target.channel)].visit([&](auto& channel) {
        channel.offer(request(i, target));
        if (channel.waiting() >= batch) channel.advance_until_accepted();
      });
    }
  }
}

}  // namespace

std::vector<Region> read_regions(const Json& json) {
  std::vector<Region> regions;
  for (const Json& item : json.items()) {
    ObjectReader reader(item);
    Region region;
    region.name = reader.string("name");
    region.address = static_cast<std::uint64_t>(reader.integer("address", 0, 1LL << 62));
    region.bytes = static_cast<std::uint64_t>(reader.integer("bytes", 1, 1LL << 62));
    region.resident = reader.boolean_or("resident", false);
    reader.finish();
    regions.push_back(region);
  }
  std::sort(regions.begin(), regions.end(), [](const auto& a, const auto& b) { return a.address < b.address; });
  for (std::size_t i = 1; i < regions.size(); ++i)
    if (regions[i].address - regions[i - 1].address < regions[i - 1].bytes)
      json.fail("tensors '" + regions[i - 1].name + "' and '" + regions[i].name + "' overlap");
  return regions;
}

RunResult run_trace(const Part& part, const Trace& trace, const RunOptions& options) {
  const AddressMap map(part, options.mapping, options.hashes);
  const ChannelMap channel_map(options.channels, std::max(options.interleave_bytes, part.burst_bytes),
                               options.channel_hash);
  check(part, trace, options);
  const auto count = static_cast<std::size_t>(options.channels);
  std::vector<Channel> channels(count, Channel(part));
  RunResult result;
  if (options.cache)
    result.slices = run_cached(channels, map, channel_map, trace, options, part.burst_bytes, result);
  else
    feed(channels, map, channel_map, trace, options);
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
