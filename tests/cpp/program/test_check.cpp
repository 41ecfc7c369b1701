// What the checker refuses, and the JSON form.
#include <boost/test/unit_test.hpp>
#include <filesystem>

#include "program/programs.hpp"

using namespace tilesim;
using namespace tilesim::program;
using namespace tilesim::test;

namespace {

struct Wrong { const char *from, *to, *words; };

std::ostream& operator<<(std::ostream& out, const Wrong& c) { return out << c.from << " -> " << c.to; }

/// Damage to the GEMM and words of the message.
const std::vector<Wrong> cases{
    {R"x("dtype": "f32", "shape": ["M", "K"])x", R"x("dtype": "f33", "shape": ["M", "K"])x", "Did you mean 'f32'"},
    {R"x("role": "output")x", R"x("role": "outptu")x", "Did you mean 'output'"},
    {R"x("elements": 16, "depth": 2, "address": 0)x", R"x("elements": 0, "depth": 2, "address": 0)x", "elements"},
    {R"x("elements": 16, "depth": 2, "address": 0)x", R"x("elements": 16, "depth": 0, "address": 0)x", "depth"},
    {R"x("address": 128)x", R"x("address": 64)x", "overlap"},
    {R"x("address": 0)x", R"x("adress": 0)x", "Did you mean 'address'"},
    {R"x("tensor": "A")x", R"x("tensor": "X")x", "'X'"},
    {R"x({"wait": "a", "queue": "mma0"})x", R"x({"wait": "x", "queue": "mma0"})x", "'x'"},
    {R"x({"wait": "a", "queue": "mma0"})x", R"x({"wait": "a"})x", "needs a queue"},
    {R"x({"wait": "a", "queue": "mma0"})x", R"x({"wiat": "a", "queue": "mma0"})x", "Did you mean 'wait'"},
    {R"x({"wait": "a", "queue": "mma0"})x", R"x({"wait": "a", "pieces": 2, "queue": "mma0"})x", "mma0"},
    {R"x({"wait": "a", "queue": "mma0"})x", R"x({"wait": "a", "back": 1, "queue": "mma0"})x", "a"},
    {R"x({"commit": "a", "queue": "load0"},)x", R"x()x", "a"},
    {R"x({"release": "a", "queue": "mma0"},)x", R"x()x", "a"},
    {R"x({"release": "a", "queue": "mma0"})x", R"x({"release": "a", "queue": "load0"})x", "consumer"},
    {R"x({"acquire": "a", "queues": ["load0"]})x", R"x({"acquire": "a", "queues": []})x", "no queue"},
    {R"x({"acquire": "a", "queues": ["load0"]})x", R"x({"acquire": "a", "queues": ["load0", "load0"]})x", "twice"},
    {R"x("at": ["4*m", "4*k"])x", R"x("at": ["4*m"])x", "axis"},
    {R"x("at": ["4*m", "4*k"])x", R"x("at": ["4*m", "4*q"])x", "'q'"},
    {R"x("at": ["4*m", "4*k"])x", R"x("at": ["4*m", "m*k"])x", "constant"},
    {R"x("extent": "min(4, M - 4*m)", "axis": 0, "stride": 4)x", R"x("extent": "4", "axis": 0, "stride": 40)x", "slot"},
    {R"x("extent": "min(4, M - 4*m)", "axis": 0)x", R"x("extent": 4294967296, "axis": 0)x", "impossible"},
    {R"x("dims": [0, 1, 1, 1])x", R"x("dims": [1, 1, 1, 1])x", "dims"},
    {R"x("dims": [["min(4, M - 4*m)", 4], ["min(4, K - 4*k)", 1]])x", R"x("dims": [["2", 4], ["min(4, K - 4*k)", 1]])x",
     "rows"},
    {R"x("dims": [["min(4, M - 4*m)", 4], ["min(4, K - 4*k)", 1]])x", R"x("dims": [["min(4, M - 4*m)", 4], ["2", 1]])x",
     "contractions"},
    {R"x("dims": [["min(4, M - 4*m)", 4], ["min(4, K - 4*k)", 1]])x",
     R"x("dims": [["min(4, M - 4*m)", 40], ["min(4, K - 4*k)", 1]])x", "leaves its slot"},
    {R"x("dims": [["min(4, M - 4*m)", 4], ["min(4, K - 4*k)", 1]])x",
     R"x("dims": [["min(4, M - 4*m)", 4], ["min(4, K - 4*k)", 9223372036854775807]])x", "leaves its slot"},
    {R"x("parameters": {"M": 7)x", R"x("parameters": {"M": 7.5)x", "an integer"},
    {R"x("extent": "min(4, M - 4*m)", "axis": 0)x", R"x("extent": "4", "axis": 0)x", "index 7 of axis 0"},
};

}  // namespace

BOOST_AUTO_TEST_SUITE(checker)

BOOST_AUTO_TEST_CASE(the_program_itself_is_legal) { BOOST_CHECK_NO_THROW(check(gemm())); }

BOOST_AUTO_TEST_CASE(mistakes_are_named) {
  for (const Wrong& c : cases) {
    const std::string said = mistake([&] { check(gemm_with(c.from, c.to)); });
    BOOST_TEST(!said.empty(), "accepted: " << c);
    BOOST_TEST(contains(said, c.words), c << ": " << said);
  }
}

BOOST_AUTO_TEST_CASE(capacity_is_that_of_the_machine) {
  Machine machine;
  machine.core.scratchpad.bytes = 256 + 2 * 64;
  BOOST_CHECK_NO_THROW(check(gemm(), &machine.core.scratchpad));
  machine.core.scratchpad.bytes -= 1;
  BOOST_TEST(contains(mistake([&] { check(gemm(), &machine.core.scratchpad); }), "exceed the scratchpad"));
  const Program accumulator = gemm_with("\"address\": 256", "\"address\": 0, \"accumulator\": true");
  machine.core.scratchpad.bytes = 256;
  BOOST_TEST(contains(mistake([&] { check(accumulator, &machine.core.scratchpad); }), "exceed the accumulator"));
  machine.core.scratchpad.accumulator_bytes = 128;
  BOOST_CHECK_NO_THROW(check(accumulator, &machine.core.scratchpad));
}

BOOST_AUTO_TEST_CASE(sizes_that_would_fill_the_memory_are_refused) {
  const auto said = [](const std::string& rest) { return mistake([&] { check(parse("", rest)); }); };
  const std::string tensors = R"x("tensors": [], )x";
  BOOST_TEST(contains(said(tensors + R"x("counters": [{"name": "c", "size": 1073741824}], )x"), "counters"));
  BOOST_TEST(contains(said(tensors + R"x("cores": 1048576, )x"), "cores"));
  const std::string slot = R"x("slots": [{"name": "s", "dtype": "f32", "elements": 1, "depth": 1048576,
      "consumers": ["v"]}], )x";
  BOOST_TEST(contains(said(tensors + R"x("cores": 4096, )x" + slot), "buffers"));
}

BOOST_AUTO_TEST_CASE(json_reads_back_equal) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TILESIM_SOURCE_DIR "/tests/programs")) {
    const Program program = Program::from_json(Json::read_file(entry.path().string()));
    const std::string text = program.to_json().dump(1);
    BOOST_TEST(Program::from_json(Json::parse(text, "again")).to_json().dump(1) == text);
    BOOST_CHECK_NO_THROW(check(program));
    ++files;
  }
  BOOST_TEST(files >= 8);
}

BOOST_AUTO_TEST_CASE(recursion_is_refused) {
  const std::string functions = R"x("tensors": [], "functions": [{"name": "f", "do": [{"call": "g"}]},
      {"name": "g", "do": [{"call": "f"}]}], )x";
  BOOST_TEST(contains(mistake([&] { check(parse(R"x({"call": "f"})x", functions)); }), "calls itself"));
  BOOST_TEST(contains(mistake([&] { check(parse(R"x({"call": "ff"})x", functions)); }), "Did you mean 'f'"));
}

BOOST_AUTO_TEST_SUITE_END()
