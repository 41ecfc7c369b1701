// Every setting of a machine, declared once: parser, schema, documentation and search space follow from this table.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tilesim/machine/machine.hpp"

namespace tilesim {

enum class SettingUnit : std::uint8_t { count, flag, ratio, text, frequency, bytes, bandwidth, duration, energy };

struct Setting {
  std::string path;  ///< "core.array.rows"
  SettingUnit unit;
  double low, high;  ///< in base units; text and flag: unused
  std::string description;
  std::vector<std::string> allowed;                ///< values of a text
  std::function<Json(const Machine&)> get;         ///< as written in a file; null: the machine lacks the section
  std::function<void(Machine&, const Json&)> set;  ///< parses and checks; UserError with the place
  bool added = false;                              ///< newer than existing hashes of machines: they ignore its default
};

const std::vector<Setting>& machine_settings();
/// A value in base units as text: "64 KiB".
std::string setting_text(SettingUnit unit, double value);
/// Settings of multi-core chips: memory regions, multicast.
std::vector<Setting> region_settings();
/// "network.kind": a name, a name with sizes, or a file.
Setting network_kind();
/// Checks memory, regions and cores for contradictions; UserError with the place.
void check_memory(const Machine& machine);
/// Settings of multipliers that skip zeros, which replace an array.
std::vector<Setting> sparse_settings();
/// Checks these settings for contradictions; UserError with the place.
void check_sparse(const Machine& machine, const std::string& place);
/// Settings of the core at instruction level.
std::vector<Setting> isa_settings();
/// Settings of the cache before the memory channels.
std::vector<Setting> cache_settings();
/// Checks the cache's settings for contradictions, if there is a cache; UserError with the place.
void check_cache(const Machine& machine, const std::string& place);
/// Settings of the mapping from addresses to channels and banks.
std::vector<Setting> address_settings();
/// Settings of the lowering profile, by section.
std::vector<Setting> lowering_settings();
/// Creates the sections of the profile that the file has, including empty ones, with defaults.
void begin_lowering(Machine& machine, const Json& json);
/// A machine with every section, at defaults.
Machine machine_of_defaults();
/// Sets the value at a dotted path, in nested objects as in a file.
void put_setting(Json& object, const std::string& path, Json value);
/// Name of a unit for users: "Hz", "bytes", ...
std::string unit_name(SettingUnit unit);
/// JSON schema of a machine file.
Json machine_schema();
/// Markdown table: setting, unit, range, default, description.
std::string machine_documentation();

}  // namespace tilesim
