// Stretches in which a channel has nothing to do are crossed in one step, and nothing tells the difference.
#include "engine/dram_outcomes.hpp"
#include "tilesim/base/interrupt.hpp"

using namespace tilesim;
using namespace tilesim::test;

namespace {

/// Every part with every refresh that it has and every page policy.
std::vector<dram::Part> settled_parts() {
  std::vector<dram::Part> parts;
  for (const std::string& file : part_files()) {
    const dram::Part part = dram::Part::read_file(file);
    for (const char* refresh : {"all_bank", "per_bank", "none"}) {
      if (std::string(refresh) == "per_bank" && part.refresh_bank_interval == 0) continue;
      for (const char* page :
           {R"("page": "open")", R"("page": "closed")", R"("page": "timeout", "page_timeout": 77})"}) {
        std::string settings = R"({"refresh": ")" + std::string(refresh) + R"(", )" + page;
        if (settings.back() != '}') settings += "}";
        parts.push_back(with(part, settings));
      }
    }
  }
  return parts;
}

std::int64_t turns(const dram::Part& part) {
  return part.controller.refresh == dram::RefreshMode::per_bank ? part.refresh_bank_interval * part.banks()
                                                                : part.refresh_interval;
}

/// The same with some interval between refreshes.
dram::Part refreshed_every(const dram::Part& part, std::int64_t ticks) {
  dram::Part changed = part;
  (part.controller.refresh == dram::RefreshMode::per_bank ? changed.refresh_bank_interval : changed.refresh_interval) =
      ticks;
  return changed;
}

/// A few requests, a pause of about `gap`, a few more, ...
Demands with_gaps(const dram::Part& part, std::mt19937_64& random, std::int64_t gap, int gaps) {
  Demands demands;
  std::int64_t at = static_cast<std::int64_t>(random() % 1000);
  for (int i = 0; i <= gaps; ++i) {
    Demands few = random_traffic(part, random, 1 + static_cast<int>(random() % 60));
    for (stepped::Demand& d : few) d.not_before += at;
    at = few.back().not_before + gap + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(gap));
    demands.insert(demands.end(), few.begin(), few.end());
  }
  return demands;
}

std::string told(const dram::Part& part) { return part.name + part.to_json().at("controller").dump(); }

}  // namespace

BOOST_AUTO_TEST_SUITE(dram_idle)

BOOST_AUTO_TEST_CASE(gaps_equal_the_stepped_model) {
  std::mt19937_64 random(21);
  std::size_t number = 0;
  for (const dram::Part& part : settled_parts()) {
    if (++number % 3 != 0) continue;  // the stepped model visits every tick: each part with some of its settings
    const Demands demands = with_gaps(part, random, std::max<std::int64_t>(turns(part), 5000) * 6, 2);
    check_equal(outcome_of(part, demands, 64), stepped::Channel(part).run(demands), told(part));
  }
}

BOOST_AUTO_TEST_CASE(gaps_equal_the_stepped_model_where_refreshes_hardly_fit) {
  // Refreshes that fall due nearly as fast as they can be done need many rounds until they repeat themselves.
  std::mt19937_64 random(22);
  for (const char* name : {"DDR4-3200", "HBM2-2000", "LPDDR5-6400", "HBM3-5200", "GDDR6-16000"}) {
    const dram::Part whole = dram::Part::read_file(std::string(TILESIM_SOURCE_DIR "/configs/dram/") + name + ".json");
    for (const char* refresh : {R"({"refresh": "all_bank"})", R"({"refresh": "per_bank", "page": "closed"})"}) {
      if (std::string(refresh).find("per_bank") != std::string::npos && whole.refresh_bank_interval == 0) continue;
      for (const std::int64_t divisor : {2, 3, 5}) {
        const dram::Part given = with(whole, refresh);
        const bool single = given.controller.refresh == dram::RefreshMode::per_bank;
        const std::int64_t interval = single ? given.refresh_bank_interval : given.refresh_interval;
        const dram::Part part = refreshed_every(given, interval / divisor | 1);
        const Demands demands = with_gaps(part, random, turns(part) * 9, 2);
        check_equal(outcome_of(part, demands, 64), stepped::Channel(part).run(demands),
                    told(part) + " / " + std::to_string(divisor));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_far_gap_is_as_a_near_one_of_the_same_phase) {
  std::mt19937_64 random(23);
  for (const dram::Part& part : settled_parts()) {
    const std::int64_t round = 2 * turns(part);
    const std::int64_t near = 8 * round + static_cast<std::int64_t>(random() % 100'000);
    for (const std::int64_t times : {std::int64_t{1}, std::int64_t{1 << 12}, (std::int64_t{1} << 58) / round}) {
      Demands demands = random_traffic(part, random, 40), second = random_traffic(part, random, 40);
      const std::int64_t after = demands.back().not_before + near;
      const auto outcome = [&](std::int64_t more) {
        Demands all = demands;
        for (stepped::Demand d : second) {
          d.not_before += after + more;
          all.push_back(d);
        }
        return outcome_of(part, all, 64);
      };
      const stepped::Outcome close = outcome(0), far = outcome(times * round);
      BOOST_TEST_CONTEXT(told(part) << " " << times) {
        BOOST_TEST(far.cycles - times * round == close.cycles);
        BOOST_TEST(far.latency_sum == close.latency_sum);
        BOOST_TEST(far.hits == close.hits);
        BOOST_TEST(far.conflicts == close.conflicts);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_far_gap_costs_no_more_than_some_rounds_of_refreshes) {
  for (const dram::Part& part : settled_parts()) {
    const std::int64_t before = interrupt::left;
    interrupt::left = std::int64_t{1} << 40;
    dram::Channel channel(part);
    for (std::int64_t i = 0; i < 5; ++i) channel.offer({i << 55, 0, 0, 0, 0, false});
    channel.finish();
    const std::int64_t units = (std::int64_t{1} << 40) - interrupt::left;
    interrupt::left = before;
    const std::int64_t refreshes = part.controller.refresh == dram::RefreshMode::per_bank ? part.banks() : 1;
    BOOST_TEST(units < 5 * 8 * (64 * refreshes + 256), told(part) << " " << units);
  }
}

BOOST_AUTO_TEST_CASE(a_channel_advances_far_at_once) {
  for (const dram::Part& part : settled_parts()) {
    const std::int64_t round = 2 * turns(part), far = round * ((std::int64_t{1} << 58) / round);
    const auto second = [&](std::int64_t at, bool stops) {
      dram::Channel channel(part);
      channel.offer({0, 0, 0, 0, 0, false});
      if (stops) channel.advance(at - 1);
      channel.offer({at, 64, 1, 0, 0, false});
      const std::int64_t end = channel.finish();
      return std::pair(end - at, channel.counters().commands);
    };
    BOOST_TEST((second(far + 3, true) == second(far + 3, false)), told(part));
    BOOST_TEST(second(far + 3, true).first == second(8 * round + 3, false).first, told(part));
  }
}

BOOST_AUTO_TEST_CASE(refreshes_that_never_end_are_told) {
  const dram::Part whole = dram::Part::read_file(TILESIM_SOURCE_DIR "/configs/dram/HBM2-2000.json");
  const dram::Part part = refreshed_every(with(whole, R"({"refresh": "per_bank"})"), 1);
  dram::Channel channel(part);
  channel.offer({0, 0, 0, 0, 0, false});
  channel.offer({std::int64_t{1} << 60, 0, 0, 0, 0, false});
  BOOST_CHECK_THROW(channel.finish(), UserError);
}

BOOST_AUTO_TEST_SUITE_END()
