// Machines: the table of settings, files in and out, mistakes, the closed-form view.
#include <boost/test/unit_test.hpp>
#include <set>

#include "tilesim/base/error.hpp"
#include "tilesim/machine/settings.hpp"

using namespace tilesim;

namespace {

const std::string minimal = R"({
  "schema": "tilesim.machine", "version": 1, "name": "tiny",
  "core": {"clock": "1 GHz", "array": {"rows": 16, "columns": 8, "rates": {"bf16": 1, "i8": 2.0}}},
  "memory": {"bandwidth": {"value": "32 GB/s", "source": "data sheet"}}
})";

UserError::Parts mistake(const std::string& text) {
  try {
    Machine::from_json(Json::parse(text, "m.json"));
  } catch (const UserError& error) {
    return error.parts();
  }
  BOOST_TEST(false, "accepted: " << text);
  return {};
}

/// The minimal machine with one piece of text replaced.
std::string with(const std::string& from, const std::string& to) {
  std::string text = minimal;
  const std::size_t at = text.find(from);
  BOOST_REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

Machine tiny() { return Machine::from_json(Json::parse(minimal, "m.json")); }

/// With every section of the lowering profile, and every text in it.
Machine with_profile() {
  Json file = Json::parse(minimal, "m.json");
  file.set("lowering", Json::parse(R"x({"fusion": {"reason": "a"}, "product": {"reason": "b", "panel_bytes": 77},
                                       "convolution": {"reason": "c"}, "reason": "d"})x"));
  return Machine::from_json(file);
}

UserError::Parts refused(const std::string& path, const Json& value) {
  try {
    tiny().replace({{path, value}});
  } catch (const UserError& error) {
    return error.parts();
  }
  BOOST_TEST(false, "accepted: " << path << " = " << value.dump());
  return {};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(settings)

BOOST_AUTO_TEST_CASE(a_minimal_file_reads) {
  const Machine machine = tiny();
  BOOST_TEST(machine.name == "tiny");
  BOOST_TEST(machine.core.clock.hertz == 1000000000);
  BOOST_TEST(machine.core.array.rows == 16);
  BOOST_TEST(machine.core.array.rates.at(DType::i8) == 2.0);
  BOOST_TEST(machine.memory.bytes_per_second == 32000000000);
  BOOST_TEST(machine.sources.at("memory.bandwidth") == "data sheet");
  BOOST_TEST(machine.core.vector.lanes == 128);  // a default
}

BOOST_AUTO_TEST_CASE(the_resolved_form_reads_back_equal) {
  const Machine machine = with_profile();
  const Machine again = Machine::from_json(Json::parse(machine.to_json().dump(1), "again"));
  BOOST_TEST(again.to_json().dump() == machine.to_json().dump());
  BOOST_TEST(again.hash() == machine.hash());
  for (const Setting& setting : machine_settings()) {
    const Json* at = nullptr;
    const Json resolved = machine.to_json();
    at = &resolved;
    std::string rest = setting.path;
    for (std::size_t dot = rest.find('.'); dot != std::string::npos; dot = rest.find('.')) {
      at = &at->at(rest.substr(0, dot));
      rest = rest.substr(dot + 1);
    }
    BOOST_TEST((at->at(rest) == setting.get(machine)), setting.path);
  }
}

BOOST_AUTO_TEST_CASE(every_setting_is_declared_whole) {
  std::set<std::string> paths;
  const Machine machine = with_profile();
  const std::string documentation = machine_documentation();
  const Json schema = machine_schema();
  for (const Setting& setting : machine_settings()) {
    BOOST_TEST(paths.insert(setting.path).second, setting.path);
    BOOST_TEST(!setting.description.empty(), setting.path);
    BOOST_TEST(setting.low <= setting.high, setting.path);
    BOOST_TEST(documentation.find("`" + setting.path + "`") != std::string::npos, setting.path);
    BOOST_TEST(schema.at("settings").find(setting.path) != nullptr, setting.path);
    Machine copy = machine;  // what it writes, it reads
    setting.set(copy, setting.get(machine));
    BOOST_TEST(copy.to_json().dump() == machine.to_json().dump(), setting.path);
  }
  BOOST_TEST(paths.size() > 40);
}

BOOST_AUTO_TEST_CASE(numbers_out_of_range_are_refused_on_both_sides) {
  for (const Setting& setting : machine_settings()) {
    if (setting.unit != SettingUnit::count && setting.unit != SettingUnit::ratio) continue;
    const auto number = [&](double value) {
      return setting.unit == SettingUnit::ratio ? Json(value) : Json(static_cast<std::int64_t>(value));
    };
    // Sizes of a cache must fit together, regions divide the channels: they have tests of their own.
    if (!setting.path.starts_with("memory.cache.") && setting.path != "memory.regions") {
      BOOST_CHECK_NO_THROW(tiny().replace({{setting.path, number(setting.low)}}));
      BOOST_CHECK_NO_THROW(tiny().replace({{setting.path, number(setting.high)}}));
    }
    const double step = setting.unit == SettingUnit::ratio ? 1e-4 : 1;
    for (const double bad : {setting.low - step, setting.high + step}) {
      const UserError::Parts parts = refused(setting.path, number(bad));
      BOOST_TEST(parts.place == setting.path);
      BOOST_TEST(parts.what.find("out of range") != std::string::npos, setting.path << ": " << parts.what);
      BOOST_TEST(!parts.allowed.empty());
    }
  }
}

BOOST_AUTO_TEST_CASE(quantities_need_their_unit) {
  const std::map<SettingUnit, std::string> wrong{{SettingUnit::frequency, "5 MiB"},
                                                 {SettingUnit::bytes, "5 GHz"},
                                                 {SettingUnit::bandwidth, "5 GB"},
                                                 {SettingUnit::duration, "5 GB/s"},
                                                 {SettingUnit::energy, "5 ns"}};
  int seen = 0;
  for (const Setting& setting : machine_settings()) {
    const auto found = wrong.find(setting.unit);
    if (found == wrong.end()) continue;
    ++seen;
    for (const Json& value : {Json(found->second), Json(5), Json("5"), Json(), Json(true)})
      BOOST_TEST(refused(setting.path, value).place == setting.path);
  }
  BOOST_TEST(seen > 10);
}

BOOST_AUTO_TEST_CASE(a_profile_has_the_sections_that_its_file_has) {
  const auto read = [](const std::string& lowering) {
    return Machine::from_json(Json::parse(with("\"memory\"", "\"lowering\": " + lowering + ", \"memory\""), "m.json"));
  };
  for (const char* text : {R"({"product":{"panel_bytes":9}})", R"({"fusion":{},"convolution":{}})", "{}"}) {
    const Machine machine = read(text);
    const Json file = Json::parse(text);
    BOOST_TEST(machine.lowering.fusion.has_value() == (file.find("fusion") != nullptr));
    BOOST_TEST(machine.lowering.product.has_value() == (file.find("product") != nullptr));
    BOOST_TEST(machine.lowering.convolution.has_value() == (file.find("convolution") != nullptr));
    BOOST_TEST(Machine::from_json(Json::parse(machine.to_json().dump(1))).to_json().dump() == machine.to_json().dump());
  }
  BOOST_TEST(read(R"({"product": {"panel_bytes": 9}})").lowering.product->window_columns == 256);  // a default
  BOOST_TEST(read("{}").hash() == tiny().hash());
  BOOST_TEST(read(R"({"product": {}})").hash() != tiny().hash());
  const Machine sourced = read(R"({"product": {"panel_bytes": {"value": 9, "source": "a paper"}}})");
  BOOST_TEST(sourced.sources.at("lowering.product.panel_bytes") == "a paper");
  BOOST_TEST(tiny().replace({{"lowering.convolution.images", 4}}).lowering.convolution->images == 4);
  BOOST_TEST(!tiny().replace({{"lowering.convolution.images", 4}}).lowering.product.has_value());
}

BOOST_AUTO_TEST_CASE(mistakes_in_a_profile_are_found_when_the_machine_is_loaded) {
  const auto said = [](const std::string& lowering) {
    return mistake(with("\"memory\"", "\"lowering\": " + lowering + ", \"memory\""));
  };
  BOOST_TEST(said(R"({"fusions": {}})").suggestion == "fusion");
  BOOST_TEST(said(R"({"fusion": {"resident_row": true}})").suggestion == "resident_rows");
  BOOST_TEST(said(R"({"product": {"panel_byte": 5}})").suggestion == "panel_bytes");
  for (const char* wrong : {R"({"product": {"panel_bytes": -8388608}})", R"({"product": {"panel_bytes": "8 MiB"}})",
                            R"({"product": {"panel_bytes": 1.5}})", R"({"product": {"panel_bytes": null}})"}) {
    const UserError::Parts parts = said(wrong);
    BOOST_TEST(parts.place.find("m.json:4 (lowering.product.panel_bytes)") != std::string::npos, parts.place);
    BOOST_TEST(!(parts.value + parts.allowed).empty());
  }
  BOOST_TEST(said(R"({"product": {"window_columns": 0}})").allowed.find("1") != std::string::npos);
  for (const char* wrong : {R"({"fusion": {"resident_rows": 1}})", R"({"fusion": true})", R"([])", R"({"reason": 5})"})
    BOOST_TEST(said(wrong).place.find("m.json:4") != std::string::npos, wrong);
}

BOOST_AUTO_TEST_CASE(unknown_keys_name_the_nearest) {
  UserError::Parts parts = mistake(with("\"rows\"", "\"rosw\""));
  BOOST_TEST(parts.suggestion == "rows");
  BOOST_TEST(parts.place.find("m.json:3") != std::string::npos);
  BOOST_TEST(parts.value.find("core.array.rosw") != std::string::npos);
  parts = mistake(with("\"memory\"", "\"memroy\""));
  BOOST_TEST(parts.suggestion == "memory");
  parts = mistake(with("\"i8\"", "\"int9\""));
  BOOST_TEST(!parts.allowed.empty());
  BOOST_TEST(parts.place.find("m.json:3") != std::string::npos);
  BOOST_TEST(refused("core.array.row", 3).suggestion == "core.array.rows");
  parts = refused("core.array.dataflow", "weight-stationary");
  BOOST_TEST(parts.suggestion == "weight_stationary");
}

BOOST_AUTO_TEST_CASE(files_that_are_no_machine) {
  BOOST_TEST(mistake(with("tilesim.machine", "tilesim.graph")).allowed == "\"tilesim.machine\"");
  BOOST_TEST(mistake(with("\"version\": 1", "\"version\": 2")).allowed == "version 1");
  BOOST_TEST(!mistake(with("\"name\": \"tiny\",", "")).what.empty());
  BOOST_TEST(mistake(with("\"rows\": 16", "\"rows\": 16, \"rows\": 8")).what.find("twice") != std::string::npos);
  BOOST_TEST(!mistake(with("\"rows\": 16", "\"rows\": 0")).allowed.empty());
  BOOST_TEST(!mistake(with("\"rows\": 16", "\"rows\": 99999999999999999999")).what.empty());
  BOOST_TEST(!mistake(with("\"rows\": 16", "\"rows\": 1.5")).what.empty());
  BOOST_TEST(!mistake(with("\"i8\": 2.0", "\"i8\": 0")).allowed.empty());
  BOOST_TEST(mistake(with("{\"value\": \"32 GB/s\", \"source\": \"data sheet\"}", "{\"value\": \"32 GB/s\"}"))
                 .what.find("source") != std::string::npos);
  BOOST_TEST(mistake(R"({"schema": "tilesim.machine", "version": 1, "name": "x"})").what.find("bandwidth") !=
             std::string::npos);
  BOOST_TEST(mistake(R"({"schema": "tilesim.machine", "version": 1, "name": "x", "memory": {"bandwidth": "1 GB/s"}})")
                 .what.find("rates") != std::string::npos);
  const std::string text = minimal;
  for (std::size_t length = 0; length < text.size(); length += 7) mistake(text.substr(0, length));
}

BOOST_AUTO_TEST_CASE(replace_leaves_the_original_and_changes_the_hash) {
  const Machine machine = tiny();
  const Machine changed = machine.replace({{"core.array.rows", 32}, {"memory.latency", "5 ns"}});
  BOOST_TEST(machine.core.array.rows == 16);
  BOOST_TEST(changed.core.array.rows == 32);
  BOOST_TEST(changed.memory.latency_ps == 5000);
  BOOST_TEST(changed.hash() != machine.hash());
  Machine described = machine;
  described.description = "another text";
  described.sources["core.array.rows"] = "another source";
  BOOST_TEST(described.hash() == machine.hash());
}

BOOST_AUTO_TEST_CASE(the_device_holds_peaks) {
  const Device device = Device::from_machine(tiny().replace({{"core.count", 2}, {"core.array.count", 3}}));
  // 2 cores x 3 arrays x 16 x 8 cells x 1 GHz, two FLOPs each.
  BOOST_TEST(device.matrix_flops_per_second(DType::bf16) == 2.0 * 2 * 3 * 16 * 8 * 1e9);
  BOOST_TEST(device.matrix_flops_per_second(DType::i8) == 2 * device.matrix_flops_per_second(DType::bf16));
  BOOST_TEST(device.matrix_flops_per_second(DType::f64) == 0);
  BOOST_TEST(device.vector_flops_per_second(DType::f32) == 2.0 * 128 * 8 * 1e9);
  BOOST_TEST(device.memory_bytes_per_second == 32e9);
}

BOOST_AUTO_TEST_SUITE_END()
