// The channel that decides per command equals the one that steps through every cycle.
#include <boost/test/unit_test.hpp>
#include <random>

#include "engine/dram_outcomes.hpp"
#include "shared.hpp"
#include "tilesim/engine/dram/mapping.hpp"
#include "tilesim/engine/dram/trace.hpp"
#include "tilesim/engine/memory/dram_run.hpp"

using namespace tilesim;
using namespace tilesim::engine;
using namespace tilesim::test;

BOOST_AUTO_TEST_SUITE(dram_channel)

BOOST_AUTO_TEST_CASE(equals_the_stepped_model_on_random_traffic) {
  for (const std::string& file : part_files()) {
    const dram::Part part = dram::Part::read_file(file);
    for (unsigned seed = 1; seed <= 3; ++seed) compare(part, seed, trials(360));
  }
}

BOOST_AUTO_TEST_CASE(equals_the_stepped_model_with_other_controllers) {
  for (const std::string& file : part_files()) {
    const dram::Part part = dram::Part::read_file(file);
    for (const char* settings :
         {R"({"read_queue": 1, "write_queue": 1})", R"({"read_queue": 3, "write_queue": 70})", R"({"page": "closed"})",
          R"({"page": "timeout", "page_timeout": 60, "write_queue": 5})",
          R"({"refresh": "none", "write_high_watermark": 1, "write_low_watermark": 0.01})"})
      compare(with(part, settings), 11, trials(160));
    if (part.refresh_bank_interval > 0) {
      compare(with(part, R"({"refresh": "per_bank"})"), 12, trials(360));
      compare(with(part, R"({"refresh": "per_bank", "page": "timeout", "page_timeout": 25})"), 13, trials(360));
    }
  }
}

BOOST_AUTO_TEST_CASE(equals_the_stepped_model_with_several_ranks) {
  struct Case {
    const char *name, *level;
    std::int64_t count;
    int banks;
  };
  for (const Case& one : {Case{"DDR4-3200", "rank", 2, 32}, Case{"DDR5-4800", "rank", 2, 64},
                          Case{"LPDDR5-6400", "rank", 2, 32}, Case{"LPDDR5-6400", "rank", 4, 64},
                          // More banks than a mask of 64 bits: eight ranks, four ranks, stacks of sixteen dies.
                          Case{"DDR4-3200", "rank", 8, 128}, Case{"DDR5-4800", "rank", 4, 128},
                          Case{"LPDDR5-6400", "rank", 8, 128}, Case{"HBM3-6400", "stack", 4, 128}}) {
    const dram::Part part = with_level(one.name, one.level, one.count);
    BOOST_TEST(part.banks() == one.banks);
    for (unsigned seed = 1; seed <= 3; ++seed) compare(part, seed, trials(360));
    compare(with(part, R"({"page": "closed", "read_queue": 7})"), 4, trials(360));
    if (part.refresh_bank_interval > 0) compare(with(part, R"({"refresh": "per_bank"})"), 5, trials(360));
  }
}

BOOST_AUTO_TEST_CASE(few_banks_are_the_same_in_a_wide_mask) {
  for (const char* name : {"HBM2-2000", "DDR4-3200", "LPDDR5-6400", "HBM3-6400"}) {
    const dram::Part part = dram::Part::read_file(std::string(TILESIM_SOURCE_DIR "/configs/dram/") + name + ".json");
    std::mt19937_64 random(6);
    const Demands demands = random_traffic(part, random, 2000);
    dram::ChannelOf<dram::NarrowMask> narrow(part);
    dram::ChannelOf<dram::WideMask> wide(part);
    for (const stepped::Demand& d : demands) {
      const dram::Request request{d.not_before, d.address, d.row, 0, static_cast<std::uint8_t>(d.bank), d.write};
      narrow.offer(request), wide.offer(request);
    }
    BOOST_TEST(narrow.finish() == wide.finish());
    BOOST_TEST(narrow.counters().latency_sum == wide.counters().latency_sum);
    BOOST_TEST(narrow.counters().commands == wide.counters().commands, boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(equals_the_stepped_model_on_named_traces) {
  for (const std::string& file : part_files()) {
    const dram::Part part = dram::Part::read_file(file);
    const dram::AddressMap map(part);
    for (const char* name : {"sequential_read", "copy_blocks_4KiB", "tile_256B_pitch_4096B", "random_read",
                             "mixed_small", "mixed_rand", "mixed_seq", "two_streams_far"}) {
      const dram::Trace trace = dram::make_trace(name, trials(100), part.burst_bytes);
      for (const std::int64_t every : {1, 9}) {
        Demands demands;
        for (std::size_t i = 0; i < trace.addresses.size(); ++i) {
          const auto at = map.locate(trace.addresses[i]);
          demands.push_back(
              {static_cast<std::int64_t>(i) * every, trace.addresses[i], at.bank, at.row, trace.writes[i] != 0});
        }
        check_equal(outcome_of(part, demands, 128), stepped::Channel(part).run(demands), part.name + " " + name);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(advancing_in_steps_changes_nothing) {
  const dram::Part part = dram::Part::read_file(TILESIM_SOURCE_DIR "/configs/dram/HBM2-2000.json");
  std::mt19937_64 random(5);
  const Demands demands = random_traffic(part, random, 3000);
  dram::Channel channel(part);
  std::vector<dram::Completion> completions, all;
  channel.report_to(&completions);
  for (std::size_t i = 0; i < demands.size(); ++i) {
    const stepped::Demand& d = demands[i];
    channel.offer({d.not_before, d.address, d.row, 0, static_cast<std::uint8_t>(d.bank), d.write});
    if (i + 1 == demands.size()) break;
    // To anywhere before the next one may be offered, in one step or several.
    const std::int64_t gap = demands[i + 1].not_before - d.not_before;
    for (std::uint64_t step = random() % 3; step > 0; --step)
      channel.advance(demands[i + 1].not_before -
                      static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(gap + 1)));
  }
  channel.finish();
  const stepped::Outcome slow = stepped::Channel(part).run(demands);
  std::vector<std::int64_t> returns;
  for (const dram::Completion& one : completions)
    if (!one.write) returns.push_back(one.tick);
  BOOST_TEST((returns == slow.returns));
}

BOOST_AUTO_TEST_CASE(far_times_are_kept_exactly) {
  // Ticks are counted from a base that moves; a trace that starts after a long time gives the same as one at once.
  dram::Part part =
      with(dram::Part::read_file(TILESIM_SOURCE_DIR "/configs/dram/DDR4-3200.json"), R"({"refresh": "none"})");
  std::mt19937_64 random(9);
  Demands demands = random_traffic(part, random, 500);
  // Two requests first, so that there is a history to forget.
  const stepped::Outcome early = outcome_of(part, demands, 64);
  const std::int64_t later = (1LL << 33) + 7;
  for (stepped::Demand& d : demands) d.not_before += later;
  stepped::Outcome late = outcome_of(part, demands, 64);
  BOOST_TEST(late.cycles == early.cycles + later);
  BOOST_TEST(late.latency_sum == early.latency_sum);
  BOOST_TEST(late.hits == early.hits);
  for (std::size_t i = 0; i < late.returns.size(); ++i) BOOST_TEST_REQUIRE(late.returns[i] == early.returns[i] + later);
}

BOOST_AUTO_TEST_SUITE_END()
