// The cursor hands out statements in text order, with loop indices, versions and calls resolved.
#include <boost/test/unit_test.hpp>
#include <vector>

#include "program/programs.hpp"

using namespace tilesim;
using namespace tilesim::program;
using namespace tilesim::test;

namespace {

std::string opaque(const std::string& cycles) {
  return R"({"opaque": {"target": "u", "cycles": ")" + cycles + R"(", "reads": [], "writes": []}, "queue": "u"})";
}

/// Indices of the cycles of all opaque statements, in order.
std::vector<std::int64_t> walked(const Program& program, std::int64_t core = 0) {
  const CompiledProgram compiled(program);
  Cursor cursor(compiled, core, 0, nullptr);
  std::vector<std::int64_t> values;
  while (const Instruction* instruction = cursor.next())
    if (instruction->opcode == Opcode::opaque) values.push_back(cursor.value(instruction->count));
  return values;
}

using Indices = std::vector<std::int64_t>;

}  // namespace

BOOST_AUTO_TEST_SUITE(cursor)

BOOST_AUTO_TEST_CASE(loops_branches_and_parameters) {
  const std::string body = R"({"for": "i", "extent": "P", "do": [
      {"for": "j", "extent": "i", "do": [)" +
                           opaque("10*i + j") + R"(]},
      {"if": "i == 1", "then": [)" +
                           opaque("100 + core") + R"(], "else": [)" + opaque("200") + "]}]}";
  const Program program = parse(body, R"("tensors": [], "cores": 8, "parameters": {"P": 3}, )");
  BOOST_TEST(walked(program, 7) == (Indices{200, 10, 107, 20, 21, 200}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(loops_of_no_trips_are_skipped) {
  BOOST_TEST(walked(parse(R"({"for": "i", "extent": 0, "do": [)" + opaque("1") + "]}, " + opaque("2"))) == (Indices{2}),
             boost::test_tools::per_element());
  BOOST_TEST(walked(parse(R"({"for": "i", "extent": "0 - 5", "do": [)" + opaque("1") + "]}")).empty());
}

BOOST_AUTO_TEST_CASE(calls_bind_parameters) {
  const std::string functions =
      R"("tensors": [], "functions": [{"name": "f", "parameters": ["n"], "do": [{"for": "i", "extent": "n", "do": [)" +
      opaque("n*10 + i") + "]}]}], ";
  const std::string body = R"({"for": "l", "extent": 2, "do": [{"call": "f", "parameters": {"n": "l + 1"}}]})";
  BOOST_TEST(walked(parse(body, functions)) == (Indices{10, 20, 21}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_copy_goes_its_own_way) {
  const CompiledProgram compiled(parse(R"({"for": "i", "extent": 5, "do": [)" + opaque("i") + "]}"));
  Cursor cursor(compiled, 0, 0, nullptr);
  const Instruction* instruction = cursor.next();
  Cursor copy = cursor;
  while (copy.next()) {
  }
  BOOST_TEST(cursor.value(instruction->count) == 0);
  BOOST_TEST(cursor.value(cursor.next()->count) == 1);
}

BOOST_AUTO_TEST_CASE(versions_count_acquires) {
  const CompiledProgram compiled(gemm());
  Cursor cursor(compiled, 0, 0, nullptr);
  std::int64_t acquired = -1;
  while (const Instruction* instruction = cursor.next()) {
    if (instruction->slot < 0 || compiled.slots[static_cast<std::size_t>(instruction->slot)].name != "a") continue;
    if (instruction->opcode == Opcode::acquire) ++acquired;
    BOOST_TEST(cursor.version(instruction->slot, 0) == acquired);
    BOOST_TEST(cursor.version(instruction->slot, 1) == acquired - 1);
  }
  BOOST_TEST(acquired == 2 * 2 * 2 - 1);
}

BOOST_AUTO_TEST_CASE(where_names_scopes) {
  const CompiledProgram compiled(
      parse(R"({"scope": "outer", "do": [{"scope": "inner", "do": [)" + opaque("1") + "]}]}"));
  Cursor cursor(compiled, 0, 0, nullptr);
  while (const Instruction* instruction = cursor.next())
    if (instruction->opcode == Opcode::opaque) BOOST_TEST(cursor.where() == "outer/inner");
}

BOOST_AUTO_TEST_CASE(walks_without_statements_end) {
  const std::string idle =
      R"({"for": "i", "extent": 1048576, "do": [{"for": "j", "extent": 1048576, "do": [{"if": "0", "then": [)" +
      opaque("1") + "]}]}]}";
  BOOST_TEST(contains(mistake([&] { walked(parse(idle)); }), "without reaching a statement"));
}

BOOST_AUTO_TEST_SUITE_END()
