#include <bit>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>

#include "tilesim/base/error.hpp"
#include "tilesim/base/json/json.hpp"

using namespace tilesim;

namespace {

const std::string machine = R"({
  "name": "small",
  "clock": "940 MHz",
  "arrays": [
    {"rows": 16, "columns": 16},
    {"rows": 8, "ratio": 0.25,
     "note": "caf\u00e9 \ud83d\ude00 \"quoted\"\n"}
  ],
  "empty": [], "none": null, "on": true,
  "limits": [-9223372036854775808, 9223372036854775807, 1e-300]
}
)";

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const UserError& error) {
    return error.what();
  }
  return {};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(json)

BOOST_AUTO_TEST_CASE(values_know_their_place) {
  const Json root = Json::parse(machine, "small.json");
  const Json& arrays = root.at("arrays");
  BOOST_TEST(root.line() == 1);
  BOOST_TEST(root.place() == "small.json:1");
  BOOST_TEST(arrays.line() == 4);
  BOOST_TEST(arrays.items()[0].at("rows").place() == "small.json:5 (arrays[0].rows)");
  BOOST_TEST(arrays.items()[1].at("ratio").place() == "small.json:6 (arrays[1].ratio)");
  BOOST_TEST(arrays.items()[1].at("note").place() == "small.json:7 (arrays[1].note)");
  BOOST_TEST(root.at("limits").items()[2].place() == "small.json:10 (limits[2])");
  // a number's end is known only from the next character, which may be a newline
  const Json lines = Json::parse("[1\n,\n2\n]");
  BOOST_TEST(lines.items()[0].line() == 1);
  BOOST_TEST(lines.items()[1].line() == 3);
  BOOST_TEST(Json::parse("\n7").line() == 2);
  BOOST_TEST(Json(3).place() == "");
}

BOOST_AUTO_TEST_CASE(typed_access_names_the_place) {
  const Json root = Json::parse(machine, "small.json");
  BOOST_TEST(root.at("arrays").items()[1].at("rows").as_int(1, 8) == 8);
  BOOST_TEST(message_of([&] { root.at("arrays").items()[1].at("rows").as_int(1, 4); }) ==
             "small.json:6 (arrays[1].rows): out of range (got 8; allowed: 1 to 4)");
  BOOST_TEST(message_of([&] { root.at("clock").as_int(); }) ==
             "small.json:3 (clock): wrong type (got \"940 MHz\"; allowed: an integer)");
  BOOST_TEST(message_of([&] { root.at("nane"); }).find("There is a key 'name'") != std::string::npos);
  BOOST_TEST(root.at("limits").items()[0].as_double() == -0x1p63);
  BOOST_CHECK_THROW(root.at("on").as_string(), UserError);
  BOOST_CHECK_THROW(root.at("none").items(), UserError);
  BOOST_CHECK_THROW(root.at("empty").members(), UserError);
  BOOST_CHECK_THROW(root.at("name").find("x"), UserError);
  BOOST_TEST(root.find("absent") == nullptr);
}

BOOST_AUTO_TEST_CASE(unknown_keys_are_found) {
  const Json root = Json::parse("{\"rows\": 1,\n \"colums\": 2}", "a.json");
  ObjectReader reader(root);
  BOOST_TEST(reader.integer("rows", 1, 10) == 1);
  BOOST_TEST(reader.integer_or("columns", 5, 1, 10) == 5);
  BOOST_TEST(message_of([&] { reader.finish(); }) ==
             "a.json:2 (colums): unknown key (got 'colums'; allowed: columns, rows). Did you mean 'columns'?");
  BOOST_CHECK_THROW(reader.required("missing"), UserError);
  BOOST_CHECK_THROW(ObjectReader(Json::parse("[]")), UserError);
}

BOOST_AUTO_TEST_CASE(text_reads_back_to_the_same_value) {
  const Json root = Json::parse(machine);
  for (const int indent : {-1, 0, 2}) BOOST_TEST((Json::parse(root.dump(indent)) == root));
  Json built = Json::object();
  built.set("a", Json::array());
  built.set("b", "x");
  built.set("b", 2.0);
  built.set("c", std::string("bad \xff byte, tab \t, bell \x07"));
  BOOST_TEST(built.dump() == "{\"a\": [], \"b\": 2.0, \"c\": \"bad \xEF\xBF\xBD byte, tab \\t, bell \\u0007\"}");
  BOOST_TEST(built.size() == 3);
  BOOST_CHECK_THROW(Json(std::numeric_limits<double>::infinity()).dump(), InternalError);
  BOOST_CHECK_THROW(built.push(1), InternalError);
  BOOST_TEST((Json(1) == Json(1)));
  BOOST_TEST(!(Json(1) == Json(1.0)));
}

BOOST_AUTO_TEST_CASE(random_doubles_read_back_exactly) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    const double value = std::bit_cast<double>(random());
    if (!std::isfinite(value)) continue;
    const Json again = Json::parse(Json(value).dump());
    BOOST_REQUIRE(again.kind() == Json::Kind::number);
    BOOST_REQUIRE(std::bit_cast<std::uint64_t>(again.as_double()) == std::bit_cast<std::uint64_t>(value));
  }
}

BOOST_AUTO_TEST_CASE(mutated_text_is_read_or_refused) {
  std::mt19937 random(2);
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = machine;
    const unsigned edits = 1 + random() % 4;
    for (unsigned edit = 0; edit < edits; ++edit) {
      if (text.empty()) break;
      const std::size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, 1 + random() % 5);
          break;
        case 2:
          text.insert(at, 1, "{}[]\",:0e-\\\n"[random() % 12]);
          break;
        default:
          text.resize(at + 1);
          break;
      }
    }
    try {
      const Json value = Json::parse(text);
      BOOST_REQUIRE((Json::parse(value.dump()) == value));
    } catch (const UserError& error) {
      ++refused;
      BOOST_REQUIRE(error.parts().place.rfind("text:", 0) == 0);
    }
  }
  BOOST_TEST(refused > 10000);
}

BOOST_AUTO_TEST_CASE(every_prefix_is_refused) {
  const std::string text = machine.substr(0, machine.rfind('}'));
  for (std::size_t size = 0; size <= text.size(); ++size)
    BOOST_REQUIRE_THROW(Json::parse(text.substr(0, size)), UserError);
}

BOOST_AUTO_TEST_CASE(files) {
  BOOST_CHECK_THROW(Json::read_file("/no/such/file.json"), UserError);
  BOOST_CHECK_THROW(Json::read_file("/"), UserError);
  const auto folder = std::filesystem::temp_directory_path();
  const std::string path = (folder / ("tilesim_" + std::to_string(std::random_device()()) + ".json")).string();
  std::ofstream(path) << "{\"a\":\n bad}";
  BOOST_TEST(message_of([&] { Json::read_file(path); }).rfind(path + ":2:2 (a): not valid JSON", 0) == 0);
  std::filesystem::remove(path);
}

BOOST_AUTO_TEST_CASE(hash) {
  BOOST_TEST(hash_text("") == "cbf29ce484222325");
  BOOST_TEST(hash_text("foobar") == "85944171f73967e8");
}

BOOST_AUTO_TEST_SUITE_END()
