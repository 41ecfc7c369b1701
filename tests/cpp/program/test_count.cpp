// How many statements a program executes, counted by hand.
#include <boost/test/unit_test.hpp>
#include <utility>

#include "tilesim/program/count.hpp"

using namespace tilesim;
using namespace tilesim::program;

namespace {

Block loads(int count) { return Block(static_cast<std::size_t>(count), Statement{Load{}, "load0", ""}); }

Block with(Block block, Statement last) {
  block.push_back(std::move(last));
  return block;
}

Statement loop(const char* extent, Block body) { return {For{"i", Expr::parse(extent), std::move(body)}, "", ""}; }

Statement branch(const char* condition, int then, int otherwise = 0) {
  return {If{Expr::parse(condition), loads(then), loads(otherwise)}, "", ""};
}

Statement call(const char* name) { return {Call{name, {}, {}}, "", ""}; }

Tensor tensor(const char* name, std::vector<std::int64_t> values) {
  Tensor made;
  made.name = name;
  made.typical.values = std::move(values);
  return made;
}

/// f: seven statements, g: fifteen. A quarter, all and none of the elements of three tensors are not zero.
std::int64_t executed(Block body) {
  Program program;
  program.functions.push_back(
      {.name = "f", .tensors = {}, .parameters = {}, .body = with({loop("3", loads(2))}, {Load{}, "load0", ""})});
  program.functions.push_back(
      {.name = "g", .tensors = {}, .parameters = {}, .body = with({call("f"), call("f")}, {Load{}, "load0", ""})});
  program.tensors = {tensor("quarter", {0, 0, 7, 0, 0, -1, 0, 0}), tensor("all", {1, 2, 3}), tensor("none", {0, 0}),
                     tensor("data", {})};
  program.body = std::move(body);
  return contents(program).operations;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(program_count)

BOOST_AUTO_TEST_CASE(loops_and_calls) {
  BOOST_TEST(executed({}) == 0);
  BOOST_TEST(executed(loads(2)) == 2);
  BOOST_TEST(executed(with({loop("5", loads(2))}, {Load{}, "load0", ""})) == 11);
  BOOST_TEST(executed({loop("3", with({loop("4", loads(1))}, {Load{}, "load0", ""}))}) == 15);
  BOOST_TEST(executed({loop("rows", loads(2))}) == 2);
  BOOST_TEST(executed({call("f"), loop("4", {call("f")})}) == 5 * 7);
  BOOST_TEST(executed({call("g")}) == 2 * 7 + 1);
}

BOOST_AUTO_TEST_CASE(branches_count_by_what_is_typical_of_the_data) {
  BOOST_TEST(executed({branch("read(quarter, i) > 0", 8)}) == 2);
  BOOST_TEST(executed({branch("read(quarter, i) > 0", 5)}) == 2);  // 1.25 is rounded up
  BOOST_TEST(executed({branch("read(quarter, i) > 0", 6, 6)}) == 3);
  BOOST_TEST(executed({branch("read(all, i) > 0", 6)}) == 6);
  BOOST_TEST(executed({branch("read(none, i) > 0", 6)}) == 1);  // the branch itself
  BOOST_TEST(executed({branch("read(data, i) > 0", 6)}) == 6);
  BOOST_TEST(executed({loop("10", {branch("read(quarter, i) > 0", 8)})}) == 20);
  BOOST_TEST(executed({branch("i < 3", 2)}) == 2);
}

BOOST_AUTO_TEST_SUITE_END()
