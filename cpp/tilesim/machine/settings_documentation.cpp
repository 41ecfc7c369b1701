// JSON schema and documentation, generated from the table of settings.
#include <array>

#include "tilesim/base/error.hpp"
#include "tilesim/machine/settings.hpp"

namespace tilesim {

std::string unit_name(SettingUnit unit) {
  static constexpr std::array<const char*, 9> names{"count",           "true or false",  "ratio",
                                                    "value",           "frequency (Hz)", "size (B)",
                                                    "bandwidth (B/s)", "time (s)",       "energy (J)"};
  return names[static_cast<std::size_t>(unit)];
}

void put_setting(Json& object, const std::string& path, Json value) {
  const std::size_t dot = path.find('.');
  if (dot == std::string::npos) {
    object.set(path, std::move(value));
    return;
  }
  const std::string key = path.substr(0, dot);
  Json inner = object.find(key) ? *object.find(key) : Json::object();
  put_setting(inner, path.substr(dot + 1), std::move(value));
  object.set(key, std::move(inner));
}

namespace {

Json default_of(const Setting& setting, const Machine& fresh) {
  Json value = setting.get(fresh);
  return value.is_null() ? Json("") : value;  // a text that files have only if it is set
}

}  // namespace

Json machine_schema() {
  Json root = Json::object();
  root.set("$schema", "https://json-schema.org/draft/2020-12/schema");
  root.set("title", "Tilesim machine, version 1");
  Json properties = Json::object();
  const Machine fresh = machine_of_defaults();
  for (const Setting& setting : machine_settings()) {
    Json entry = Json::object();
    entry.set("description", setting.description + " [" + unit_name(setting.unit) + "]");
    entry.set("default", default_of(setting, fresh));
    properties.set(setting.path, std::move(entry));
  }
  root.set("settings", std::move(properties));
  return root;
}

std::string machine_documentation() {
  std::string text = "| setting | unit | range | default | meaning |\n|---|---|---|---|---|\n";
  const Machine fresh = machine_of_defaults();
  for (const Setting& s : machine_settings()) {
    const bool ranged = s.unit != SettingUnit::text && s.unit != SettingUnit::flag;
    const std::string range =
        ranged ? setting_text(s.unit, s.low) + " to " + setting_text(s.unit, s.high) : join(s.allowed);
    text += "| `" + s.path + "` | " + unit_name(s.unit) + " | " + range + " | `" + default_of(s, fresh).dump() +
            "` | " + s.description + " |\n";
  }
  return text;
}

}  // namespace tilesim
