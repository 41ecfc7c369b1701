// Counts times a table, by hand.
#include <boost/test/unit_test.hpp>

#include "tilesim/report/energy.hpp"

using namespace tilesim;

BOOST_AUTO_TEST_SUITE(energy)

BOOST_AUTO_TEST_CASE(an_item_is_summed_over_operations_in_the_order_of_the_table) {
  std::vector<Count> counts;
  const std::vector<Caused> caused{{"first", 30}, {"none", 0}, {"second", 12}};
  add_counts(counts, {"arrays", "multiply-adds", {}, {}, 50}, caused);
  BOOST_TEST_REQUIRE(counts.size() == 3);  // two kernels, and eight that no kernel caused
  BOOST_TEST(counts[0].operation == "first");
  BOOST_TEST(counts[2].operation == "");
  BOOST_TEST(counts[2].number == 8.0);
  counts.push_back({"network", "network bytes", {}, {}, 7});
  const std::vector<EnergyRate> table{{"network bytes", 3}, {"multiply-adds", 100}, {"other", 5}};
  const std::vector<EnergyPart> parts = energy_of(counts, table);
  BOOST_TEST_REQUIRE(parts.size() == 3);
  BOOST_TEST(parts[0].part == "network bytes");
  BOOST_TEST(parts[0].femtojoules == 21);
  BOOST_TEST(parts[1].count == 50);
  BOOST_TEST(parts[1].femtojoules == 5000);
  BOOST_TEST(parts[2].count == 0);
}

BOOST_AUTO_TEST_CASE(time_has_fractions_and_events_have_none) {
  const std::vector<Count> counts{{"static", "static (ps)", {}, {}, 10.75}, {"arrays", "halves", {}, {}, 10.75}};
  const std::vector<EnergyRate> table{{"static (ps)", 2.0, true, false}, {"halves", 2.0}, {"unknown", 0, false}};
  const std::vector<EnergyPart> parts = energy_of(counts, table);
  BOOST_TEST(parts[0].count == 10);
  BOOST_TEST(parts[0].femtojoules == 21);
  BOOST_TEST(parts[1].femtojoules == 20);
  BOOST_TEST(!parts[2].known);
}

BOOST_AUTO_TEST_CASE(what_adds_up_leaves_no_rest) {
  std::vector<Count> counts;
  const std::vector<Caused> caused{{"a", 1}, {"b", 2}};
  add_counts(counts, {"vector unit", "vector operations", {}, {}, 3}, caused);
  BOOST_TEST(counts.size() == 2);
}

BOOST_AUTO_TEST_CASE(items_of_one_part_share_its_row) {
  const std::vector<Count> counts{{"memory", "bytes", "DRAM", "a", 10}, {"memory", "padded bytes", "DRAM", "a", 4}};
  const std::vector<EnergyRate> table{{"bytes", 7}, {"padded bytes", 5, true, true, "bytes"}};
  const std::vector<EnergyPart> parts = energy_of(counts, table);
  BOOST_TEST_REQUIRE(parts.size() == 1);
  BOOST_TEST(parts[0].count == 14);
  BOOST_TEST(parts[0].femtojoules == 90);
}

BOOST_AUTO_TEST_CASE(counts_come_back_from_their_json_form) {
  const std::vector<Count> counts{{"arrays", "multiply-adds", {}, "a", 1e15}, {"memory", "bytes", "DRAM", "a", 3},
                                  {"arrays", "multiply-adds", {}, "b", 0.5},  {"arrays", "multiply-adds", {}, {}, 7},
                                  {"memory", "bytes", "cache", "a", 4},       {"arrays", "multiply-adds", {}, "a", 1}};
  const std::vector<Count> wanted{{"arrays", "multiply-adds", {}, "a", 1e15 + 1},
                                  {"arrays", "multiply-adds", {}, "b", 0.5},
                                  {"arrays", "multiply-adds", {}, {}, 7},
                                  {"memory", "bytes", "DRAM", "a", 3},
                                  {"memory", "bytes", "cache", "a", 4}};
  const std::vector<Count> found = read_counts(Json::parse(counts_json(counts).dump(), "counts"));
  BOOST_TEST((found == wanted));
  BOOST_TEST((read_counts(counts_json(found)) == wanted));
}

BOOST_AUTO_TEST_SUITE_END()
