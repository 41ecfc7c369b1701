// The slice that jumps from request to request equals the one that looks at every cycle.
#include <boost/test/unit_test.hpp>
#include <map>
#include <random>
#include <string>

#include "engine/stepped_cache.hpp"
#include "tilesim/engine/cache/slice.hpp"

using namespace tilesim;
using namespace tilesim::engine;

namespace {

using Random = std::mt19937_64;

dram::Part part_of(const std::string& name) {
  return dram::Part::read_file(std::string(TILESIM_SOURCE_DIR "/configs/dram/") + name + ".json");
}

std::int64_t below(Random& random, std::int64_t n) {
  return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
}

CacheSpec random_spec(Random& random, std::int64_t burst) {
  CacheSpec spec;
  spec.sets = 1 + below(random, 8);
  spec.ways = 1 + below(random, 6);
  spec.sector_bytes = burst << below(random, 3);
  spec.line_bytes = spec.sector_bytes << below(random, 4);
  spec.hit_cycles = 1 + below(random, 30);
  spec.ports = 1 + below(random, 3);
  spec.bytes_per_cycle = below(random, 2) == 0 ? 0 : burst >> below(random, 3);
  spec.mshrs = 1 + below(random, 10);
  spec.mshr_targets = 1 + below(random, 4);
  spec.write_back = below(random, 3) != 0;
  spec.write_allocate = below(random, 3) != 0;
  return spec;
}

std::vector<stepped::Ask> random_asks(Random& random, const CacheSpec& spec, std::int64_t burst, int count) {
  std::vector<stepped::Ask> asks;
  const std::int64_t pace = 1 + below(random, 12), writes = below(random, 4), span = 8 + below(random, 200);
  const bool whole = below(random, 2) == 0, passes = below(random, 3) == 0;
  stepped::Time at = 0;
  for (int i = 0; i < count; ++i) {
    const std::int64_t bytes = whole ? spec.sector_bytes : burst;
    const std::int64_t place = below(random, 3) == 0 ? below(random, span * 4) : below(random, span);
    asks.push_back({at, static_cast<std::uint64_t>(place * bytes), bytes, below(random, 4) < writes,
                    passes && below(random, 4) == 0});
    at += below(random, pace);
    if (below(random, 60) == 0) at += below(random, 600);
  }
  return asks;
}

void check_equal(const CacheSpec& spec, cache::Below& fast_line, stepped::Line& slow_line,
                 const std::vector<stepped::Ask>& asks) {
  stepped::Cache slow(spec, slow_line);
  const stepped::CacheOutcome want = slow.run(asks);
  cache::Slice fast(spec, fast_line);
  std::vector<std::int64_t> entered, answered(asks.size(), -1);
  std::vector<bool> hit;
  for (std::size_t i = 0; i < asks.size(); ++i) {
    const stepped::Ask& ask = asks[i];
    const cache::Access access{
        ask.due, ask.address, ask.bytes, ask.write, ask.write ? cache::no_tag : static_cast<std::uint32_t>(i), 0};
    if (ask.bypass) {
      entered.push_back(fast.bypass(access));
      hit.push_back(false);
    } else {
      const cache::Slice::Outcome outcome = fast.access(access);
      entered.push_back(outcome.taken);
      hit.push_back(outcome.hit);
    }
  }
  fast.finish();
  for (const cache::Below::Returned& one : fast.answers) answered[one.tag] = one.cycle;
  BOOST_TEST(entered == want.entered, boost::test_tools::per_element());
  BOOST_TEST(answered == want.answered, boost::test_tools::per_element());
  BOOST_TEST((hit == want.hit));
  const cache::Counters counters = fast.counters();
  BOOST_TEST(counters.fetched_bytes == want.fetched);
  BOOST_TEST(counters.written_bytes == want.written);
  BOOST_TEST(counters.dirty_bytes == want.dirty);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cache_slice)

BOOST_AUTO_TEST_CASE(equals_the_stepped_model_before_dram_channels) {
  const char* const names[] = {"HBM2-2000", "DDR4-2400", "LPDDR5-6400"};
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Random random(seed);
    const dram::Part part = part_of(names[seed % 3]);
    const CacheSpec spec = random_spec(random, part.burst_bytes);
    const auto asks = random_asks(random, spec, part.burst_bytes, 400);
    dram::Channel channel(part);
    const dram::AddressMap map(part);
    cache::BankBelow fast(channel, map, part.burst_bytes, cache::Scale());
    stepped::DramLine slow(part);
    BOOST_TEST_CONTEXT("seed " << seed) check_equal(spec, fast, slow, asks);
  }
}

BOOST_AUTO_TEST_CASE(equals_the_stepped_model_before_simple_channels) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Random random(seed);
    const CacheSpec spec = random_spec(random, 32);
    const auto asks = random_asks(random, spec, 32, 300);
    const std::int64_t rate = 1 + below(random, 60), per = 1 + below(random, 4), latency = below(random, 80),
                       buffer = 32 * below(random, 20);
    cache::SimpleBelow fast({{per * 1000}, {rate * 1000}, latency, buffer});
    stepped::ByteLine slow(rate, per, latency, buffer);
    // The clock of `per` kHz has per cycles where `rate` bytes pass.
    BOOST_TEST_CONTEXT("seed " << seed) check_equal(spec, fast, slow, asks);
  }
}

BOOST_AUTO_TEST_CASE(an_outlook_is_what_comes_if_nothing_else_does) {
  const dram::Part part = part_of("HBM2-2000");
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Random random(seed);
    const CacheSpec spec = random_spec(random, part.burst_bytes);
    dram::Channel channel(part);
    const dram::AddressMap map(part);
    cache::BankBelow line(channel, map, part.burst_bytes, cache::Scale(3, 2));
    cache::Slice slice(spec, line);
    const auto asks = random_asks(random, spec, part.burst_bytes, 100);
    for (std::size_t i = 0; i < asks.size(); ++i)
      slice.access({asks[i].due, asks[i].address, asks[i].bytes, asks[i].write, static_cast<std::uint32_t>(i), 0});
    slice.answers.clear();
    std::vector<cache::Below::Returned> expected;
    slice.outlook(expected);
    std::map<std::uint32_t, std::int64_t> last, real;
    for (const auto& one : expected) last[one.tag] = std::max(last[one.tag], one.cycle);
    slice.finish();
    for (const auto& one : slice.answers) real[one.tag] = one.cycle;
    BOOST_TEST((last == real), "seed " << seed);
  }
}

BOOST_AUTO_TEST_CASE(more_registers_and_ports_never_answer_a_stream_later) {
  Random random(5);
  std::vector<stepped::Ask> asks;
  for (int i = 0; i < 400; ++i) asks.push_back({0, static_cast<std::uint64_t>(i) * 32, 32, false, false});
  std::int64_t before = INT64_MAX;
  for (const std::int64_t mshrs : {1, 2, 4, 8, 16, 32}) {
    CacheSpec spec;
    spec.sets = 64;
    spec.mshrs = mshrs;
    cache::SimpleBelow line({{1000}, {32000}, 50, 1 << 20});
    cache::Slice slice(spec, line);
    for (const stepped::Ask& ask : asks) slice.access({0, ask.address, 32, false, cache::no_tag, 0});
    const std::int64_t done = slice.finish();
    // One register fetches a sector every latency + 1 byte times; enough of them, one per cycle.
    BOOST_TEST(done <= before);
    BOOST_TEST(done >= 400 + 50);
    if (mshrs == 1) BOOST_TEST(done >= 400 * 51);
    before = done;
  }
}

BOOST_AUTO_TEST_SUITE_END()
