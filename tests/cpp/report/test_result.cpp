// The Result: its JSON form, its hash, its arithmetic.
#include <boost/test/unit_test.hpp>
#include <functional>
#include <set>

#include "tilesim/base/error.hpp"
#include "tilesim/report/result.hpp"

using namespace tilesim;

namespace {

Result sampled() {
  Result result;
  result.program = "p";
  result.machine = "m";
  result.cycles = 940;
  result.hertz = 940000000;
  result.tile_operations = 7;
  result.events = 30;
  result.memory_read_bytes = 4096;
  result.memory_written_bytes = 512;
  result.network_bytes = 4608;
  result.multiply_adds = 1e6;
  result.vector_operations = 12;
  result.bottleneck = "memory";
  result.bottleneck_share = 0.75;
  UnitUse unit;
  unit.unit = "core0.array0";
  unit.kind = "array";
  for (int i = 0; i < unit_state_count; ++i) unit.cycles[i] = 100 + i;
  unit.operations = 3;
  unit.work = 1e6;
  result.units = {unit};
  OperationUse operation;
  operation.name = "k0";
  operation.operation = {"matmul", "relu+x"};
  operation.count = 2;
  operation.start = 5;
  operation.finish = 900;
  operation.cycles = 895;
  operation.exclusive = 940;
  operation.load_bytes = 4096;
  operation.store_bytes = 512;
  operation.array_busy = 400;
  operation.bound = "memory";
  operation.bound_share = 0.7;
  result.operations = {operation};
  result.energy = {{"memory bytes", 4608, 99, true}, {"static (ps)", 1, 0, false}};
  result.approximations = {"one", "two"};
  result.fidelity = {{"memory", "simple"}};
  result.hashes = {{"program", "00"}};
  result.versions = {{"tilesim", "0.1.0"}};
  result.labels = {"k0"};
  result.intervals = {{0, 0, 5, 9}};
  result.configuration = Json::parse(R"({"a": [1, 2.5, null]})");
  return result;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(result)

BOOST_AUTO_TEST_CASE(seconds_are_cycles_of_the_clock) { BOOST_TEST(sampled().seconds() == 1e-6); }

BOOST_AUTO_TEST_CASE(json_reads_back_equal) {
  const Json json = sampled().to_json();
  const Result again = Result::from_json(Json::parse(json.dump(1), "result"));
  BOOST_TEST(again.to_json().dump() == json.dump());
  BOOST_TEST(again.timing_hash() == sampled().timing_hash());
  BOOST_TEST(again.intervals.size() == 1U);
  BOOST_TEST(again.units[0].cycles[static_cast<int>(UnitState::wait_dependency)] == 103);
  BOOST_TEST(again.operations[0].exclusive == 940);
  BOOST_TEST(!again.energy[1].known);
}

BOOST_AUTO_TEST_CASE(states_have_names_in_order_of_priority) {
  std::set<std::string_view> names;
  for (int i = 0; i < unit_state_count; ++i) names.insert(name(static_cast<UnitState>(i)));
  BOOST_TEST(names.size() == static_cast<std::size_t>(unit_state_count));
  BOOST_TEST(name(UnitState::busy) == "busy");
  BOOST_TEST(name(UnitState::idle) == "idle");
}

BOOST_AUTO_TEST_CASE(the_hash_covers_every_integer_of_timing_and_nothing_else) {
  const std::string base = sampled().timing_hash();
  BOOST_TEST(base.size() == 16U);
  const std::vector<std::function<void(Result&)>> timing{
      [](Result& r) { ++r.cycles; },
      [](Result& r) { ++r.tile_operations; },
      [](Result& r) { ++r.memory_read_bytes; },
      [](Result& r) { ++r.memory_written_bytes; },
      [](Result& r) { ++r.network_bytes; },
      [](Result& r) { ++r.units[0].cycles[4]; },
      [](Result& r) { ++r.units[0].operations; },
      [](Result& r) { ++r.units[0].bytes; },
      [](Result& r) { ++r.operations[0].exclusive; },
      [](Result& r) { ++r.operations[0].array_busy; },
      [](Result& r) { r.units.push_back(r.units[0]); },
  };
  for (const auto& change : timing) {
    Result changed = sampled();
    change(changed);
    BOOST_TEST(changed.timing_hash() != base);
  }
  Result renamed = sampled();
  renamed.machine = renamed.program = "another";
  renamed.approximations.clear();
  renamed.hashes.clear();
  renamed.intervals.clear();
  renamed.bottleneck_share = 0.1;
  BOOST_TEST(renamed.timing_hash() == base);
}

BOOST_AUTO_TEST_CASE(files_that_are_no_result) {
  const std::string text = sampled().to_json().dump(1);
  const auto fails = [](const std::string& changed) {
    try {
      Result::from_json(Json::parse(changed, "r.json"));
    } catch (const UserError& error) {
      return error.parts().place.find("r.json") != std::string::npos;
    }
    return false;
  };
  for (std::size_t length = 0; length < text.size(); length += 13) BOOST_TEST(fails(text.substr(0, length)));
  const auto swap = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    const std::size_t at = changed.find(from);
    BOOST_REQUIRE(at != std::string::npos);
    return changed.replace(at, from.size(), to);
  };
  BOOST_TEST(fails(swap("tilesim.result", "tilesim.graph")));
  BOOST_TEST(fails(swap("\"version\": 2", "\"version\": 3")));
  BOOST_TEST(fails(swap("\"cycles\": 940", "\"cycles\": 940.5")));
  BOOST_TEST(fails(swap("\"cycles\": 940", "\"cycle\": 940")));
  BOOST_TEST(fails(swap("\"bottleneck_share\"", "\"bottleneck_shares\"")));
  BOOST_TEST(fails(swap("\"wait_load\"", "\"wait_loads\"")));
  BOOST_TEST(!fails(text));
}

BOOST_AUTO_TEST_SUITE_END()
