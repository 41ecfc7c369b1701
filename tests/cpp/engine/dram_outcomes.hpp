// Traffic for DRAM channels, and what a channel makes of it beside what the stepped model makes of it.
#pragma once

#include <boost/test/unit_test.hpp>
#include <random>
#include <string>
#include <vector>

#include "engine/part_files.hpp"
#include "engine/stepped_channel.hpp"
#include "tilesim/engine/dram/channel.hpp"

namespace tilesim::test {

namespace dram = engine::dram;

using Demands = std::vector<stepped::Demand>;

/// Traffic that changes its habits: bursts of rows, jumps, repeated addresses, reads and writes, pauses.
inline Demands random_traffic(const dram::Part& part, std::mt19937_64& random, int requests) {
  const auto below = [&](std::uint64_t n) { return random() % n; };
  Demands demands;
  const std::uint64_t pace = 1 + below(9), writes = below(4), rows = 1 + below(6);
  std::int64_t at = 0;
  while (static_cast<int>(demands.size()) < requests) {
    const int bank = static_cast<int>(below(static_cast<std::uint64_t>(part.banks()))),
              row = static_cast<int>(below(rows));
    const bool write = below(4) < writes;
    const std::uint64_t length = 1 + below(below(3) == 0 ? 40 : 3);
    for (std::uint64_t i = 0; i < length; ++i) {
      stepped::Demand d;
      d.not_before = at;
      d.bank = bank;
      d.row = row;
      d.write = below(8) == 0 ? !write : write;
      d.address = (static_cast<std::uint64_t>(row) * 128 + static_cast<std::uint64_t>(bank)) * 4096 + below(16) * 32;
      demands.push_back(d);
      at += static_cast<std::int64_t>(below(pace));
    }
    if (below(50) == 0) at += static_cast<std::int64_t>(below(4000));
  }
  return demands;
}

inline stepped::Outcome outcome_of(const dram::Part& part, const Demands& demands, std::size_t batch) {
  dram::Channel channel(part);
  std::vector<dram::Completion> completions;
  channel.report_to(&completions);
  for (std::size_t i = 0; i < demands.size(); ++i) {
    const stepped::Demand& d = demands[i];
    channel.offer(
        {d.not_before, d.address, d.row, static_cast<std::uint32_t>(i), static_cast<std::uint8_t>(d.bank), d.write});
    if (channel.waiting() >= batch) channel.advance_until_accepted();
  }
  stepped::Outcome out;
  out.cycles = channel.finish();
  const dram::Counters& c = channel.counters();
  out.latency_sum = c.latency_sum;
  out.latency_max = c.latency_max;
  out.forwarded = c.forwarded;
  out.merged = c.merged;
  out.hits = c.hits;
  out.misses = c.misses;
  out.conflicts = c.conflicts;
  out.commands.assign(c.commands.begin(), c.commands.end());
  for (const dram::Completion& one : completions)
    if (!one.write) out.returns.push_back(one.tick);
  return out;
}

inline void check_equal(const stepped::Outcome& fast, const stepped::Outcome& slow, const std::string& what) {
  BOOST_TEST_CONTEXT(what) {
    BOOST_TEST(fast.cycles == slow.cycles);
    BOOST_TEST(fast.hits == slow.hits);
    BOOST_TEST(fast.misses == slow.misses);
    BOOST_TEST(fast.conflicts == slow.conflicts);
    BOOST_TEST(fast.forwarded == slow.forwarded);
    BOOST_TEST(fast.merged == slow.merged);
    BOOST_TEST(fast.latency_sum == slow.latency_sum);
    BOOST_TEST(fast.latency_max == slow.latency_max);
    BOOST_TEST(fast.commands == slow.commands, boost::test_tools::per_element());
    BOOST_TEST((fast.returns == slow.returns));
  }
}

inline dram::Part with(const dram::Part& part, const std::string& settings) {
  return part.with_controller(Json::parse(settings));
}

inline void compare(const dram::Part& part, unsigned seed, int requests) {
  std::mt19937_64 random(seed);
  const Demands demands = random_traffic(part, random, requests);
  const stepped::Outcome slow = stepped::Channel(part).run(demands);
  check_equal(outcome_of(part, demands, 1 + random() % 200), slow, part.name + " seed " + std::to_string(seed));
}

/// A shipped part with another number of ranks or stacks.
inline dram::Part with_level(const std::string& name, const std::string& level, std::int64_t count) {
  Json json = dram::Part::read_file(TILESIM_SOURCE_DIR "/configs/dram/" + name + ".json").to_json();
  Json levels = json.at("levels");
  levels.set(level, count);
  json.set("levels", levels);
  return dram::Part::from_json(Json::parse(json.dump()));
}

}  // namespace tilesim::test
