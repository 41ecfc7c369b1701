// Which loops are steady, after how many trips they repeat, and what is left of them.
#include <boost/test/unit_test.hpp>

#include "engine/programs.hpp"
#include "tilesim/engine/replay/extend.hpp"
#include "tilesim/engine/replay/search.hpp"
#include "tilesim/engine/replay/shorten.hpp"

using namespace tilesim;
using namespace tilesim::engine::replay;
using tilesim::test::opaque;
using tilesim::test::parse;

namespace {

const std::string rows = R"("tensors": [{"name": "x", "dtype": "f32", "shape": [3000], "role": "input"}], )";
const std::string load =
    R"({"load": {"tensor": "x", "at": ["3*i"], "dims": [{"extent": 3, "axis": 0, "stride": 1}], "slot": "s"},
        "queue": "load0"})";

program::Program kernel(const std::string& body, std::int64_t trips = 1000) {
  return parse(
      R"({"scope": "k", "do": [{"for": "i", "extent": )" + std::to_string(trips) + R"(, "do": [)" + body + "]}]}",
      rows);
}

std::string waiting(const std::string& cycles) {
  return R"({"opaque": {"target": "unit", "cycles": ")" + cycles + R"(", "reads": [], "writes": []}, "queue": "unit"})";
}

/// The steady loops of all kernels.
std::vector<Steady> found(const program::Program& program, const Places& places = {}) {
  std::vector<Steady> loops;
  for (const SteadyKernel& one : steady_loops(program, 10, places))
    for (const SteadyLoop& loop : one.loops) loops.push_back(loop.is);
  return loops;
}

bool is_steady(const program::Program& program) { return !found(program).empty(); }

}  // namespace

BOOST_AUTO_TEST_SUITE(replay)

/// Rows of 12 bytes a trip lie in bursts of 32 bytes anew after 8 trips; every third trip does more.
BOOST_AUTO_TEST_CASE(alternating_trips_are_taken_in_whole_periods) {
  const Places places{32, 32};
  const auto loops = found(kernel(load), places);
  BOOST_REQUIRE_EQUAL(loops.size(), 1);
  BOOST_TEST((loops[0] == Steady{1000, 8, true}));
  for (int level = 0; level < 3; ++level) BOOST_TEST((1000 - kept_trips(loops[0], 1, level)) % 8 == 0);
  const auto thirds = found(kernel(load + R"(, {"if": "i % 3 == 0", "then": [)" + load + "]}"), places);
  BOOST_REQUIRE_EQUAL(thirds.size(), 1);
  BOOST_TEST((thirds[0] == Steady{1000, 24, true}));
  const auto late = found(kernel(load), {32, 4096});
  BOOST_REQUIRE_EQUAL(late.size(), 1);
  BOOST_TEST((late[0] == Steady{1000, 8, false}));  // 1,024 trips around the channels
}

BOOST_AUTO_TEST_CASE(loops_that_bend_in_their_middle_are_left_whole) {
  const std::string leaf = opaque("unit", 1);
  const auto with = [&](const std::string& condition) {
    return kernel(R"({"if": ")" + condition + R"(", "then": [)" + leaf + ", " + leaf + "]}, " + leaf);
  };
  BOOST_TEST(!is_steady(with("i < 400")));
  BOOST_TEST(is_steady(with("i < 999")));
  BOOST_TEST(!is_steady(kernel(waiting("min(7, 3000 - 5*i)"))));
  BOOST_TEST(is_steady(kernel(waiting("min(7, 5000 - 5*i)"))));
  BOOST_TEST(!is_steady(kernel(waiting("i // 300"))));
  BOOST_TEST(is_steady(kernel(waiting("i // 30"))));
}

/// A causal loop: the inner one has as many trips as the outer index says. It is no steady loop.
BOOST_AUTO_TEST_CASE(loops_that_grow_are_left_whole) {
  const auto with = [](const std::string& extent) {
    return kernel(R"({"for": "j", "extent": ")" + extent + R"(", "do": [)" + opaque("unit", 1) + "]}");
  };
  BOOST_TEST(!is_steady(with("i + 1")));
  BOOST_TEST(is_steady(with("3")));
  BOOST_TEST(!is_steady(kernel(waiting("read(x, i)"))));
  BOOST_TEST(is_steady(kernel(waiting("read(x, 5)"))));
  BOOST_TEST(!is_steady(kernel(R"({"wait_counter": "c", "pieces": "i", "queue": "unit"})")));
}

BOOST_AUTO_TEST_CASE(an_inner_loop_may_use_the_name_anew) {
  const std::string inner = R"({"for": "i", "extent": 3, "do": [)" + waiting("max(2, 1000*i)") + "]}";
  const program::Program program = kernel(inner);
  BOOST_TEST(is_steady(program));
  const auto& scope = std::get<program::Scope>(program.body[0].action);
  const auto& loop = std::get<program::For>(scope.body[0].action);
  const program::Program less = without_trips(program, {{&loop, 4}});
  const auto& outer = std::get<program::For>(std::get<program::Scope>(less.body[0].action).body[0].action);
  const auto& inside = std::get<program::For>(outer.body[0].action);
  BOOST_TEST(outer.extent.value() == 4);
  BOOST_TEST((std::get<program::OpaqueOp>(inside.body[0].action).cycles == Expr::parse("max(2, 1000*i)")));
}

/// Index 0 and 1, then 998 and 999.
BOOST_AUTO_TEST_CASE(the_first_and_the_last_trips_keep_their_index) {
  const program::Program program = kernel(load + R"(, {"call": "f", "tensors": {}, "parameters": {"p": "2*i"}})");
  const auto& scope = std::get<program::Scope>(program.body[0].action);
  const program::Program less = without_trips(program, {{&std::get<program::For>(scope.body[0].action), 4}});
  const auto& loop = std::get<program::For>(std::get<program::Scope>(less.body[0].action).body[0].action);
  const Expr at = std::get<program::Load>(loop.body[0].action).transfer.at[0];
  const Expr passed = std::get<program::Call>(loop.body[1].action).parameters.at("p");
  const std::int64_t seen[] = {0, 1, 998, 999};
  for (std::int64_t i = 0; i < 4; ++i) {
    const auto value = [&](const std::string&) { return i; };
    BOOST_TEST(at.evaluate(value) == 3 * seen[i]);
    BOOST_TEST(passed.evaluate(value) == 2 * seen[i]);
  }
}

/// 10 + 3 a trip: of runs with 4 and 8 trips to 1,000,004 trips. Ties go to the even number.
BOOST_AUTO_TEST_CASE(sums_with_weights_are_exact) {
  Result few, many;
  few.cycles = 10 + 3 * 4;
  many.cycles = 10 + 3 * 8;
  few.multiply_adds = 4e15;
  many.multiply_adds = 8e15;
  const engine::replay::WeightedResult parts[] = {{engine::replay::Weight{}.times(4 - 1000000, 4), &few},
                                                  {engine::replay::Weight{}.times(1000000, 4), &many}};
  const auto sum = combined(few, parts);
  BOOST_REQUIRE(sum.has_value());
  BOOST_TEST(sum->cycles == 10 + 3 * 1000004);
  BOOST_TEST(sum->multiply_adds == 1000004e15);
  few.cycles = 5;
  const engine::replay::WeightedResult half[] = {{engine::replay::Weight{}.times(1, 2), &few}};
  BOOST_TEST(combined(few, half)->cycles == 2);
  few.cycles = 7;
  BOOST_TEST(combined(few, half)->cycles == 4);
  const engine::replay::WeightedResult negative[] = {{engine::replay::Weight{}.times(-1, 1), &few}};
  BOOST_TEST(combined(few, negative)->cycles == 0);
  many.units.emplace_back();
  BOOST_TEST(!combined(few, parts).has_value());
}

BOOST_AUTO_TEST_CASE(states_add_up_after_rounding) {
  Result result;
  result.cycles = 100;
  result.units.emplace_back();
  result.units[0].cycles[static_cast<int>(UnitState::busy)] = 90;
  result.units[0].cycles[static_cast<int>(UnitState::idle)] = 5;
  result.units[0].cycles[static_cast<int>(UnitState::wait_load)] = 12;
  result.operations.resize(2);
  result.operations[0].exclusive = 99;
  result.operations[1].exclusive = 3;
  balance(result);
  BOOST_TEST(result.units[0].cycles[static_cast<int>(UnitState::busy)] == 90);
  BOOST_TEST(result.units[0].cycles[static_cast<int>(UnitState::idle)] == 0);
  BOOST_TEST(result.units[0].cycles[static_cast<int>(UnitState::wait_load)] == 10);
  BOOST_TEST(result.operations[1].exclusive == 1);
}

/// Four times what two predictions differ by: 4 % of 100 cycles; a queue's time is measured by all cycles.
BOOST_AUTO_TEST_CASE(bounds_by_hand) {
  Result shorter, longer;
  shorter.cycles = 99, longer.cycles = 100;
  for (Result* result : {&shorter, &longer}) {
    result->units.resize(2);
    result->units[0].kind = "load";
    result->units[1].kind = "array";
  }
  longer.units[0].cycles[0] = 50, shorter.units[0].cycles[0] = 48;
  longer.units[1].cycles[0] = 50, shorter.units[1].cycles[0] = 49;
  const Bounds found = bounds(shorter, longer);
  BOOST_TEST(found.cycles == 0.04, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(found.others == 0.08, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(found.queues == 0.08, boost::test_tools::tolerance(1e-12));
  const Bounds same = bounds(longer, longer);
  BOOST_TEST(same.cycles == 0.005);
  BOOST_TEST(same.others == 0.005);
  BOOST_TEST(same.queues == 0.05);
}

BOOST_AUTO_TEST_SUITE_END()
