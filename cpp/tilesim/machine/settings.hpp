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
  std::vector<std::string> allowed;                ///< of a text
  std::function<Json(const Machine&)> get;         ///< as written in a file; null: the machine lacks the section
  std::function<void(Machine&, const Json&)> set;  ///< parses and checks; UserError with the place
  bool added = false;  ///< younger than the hashes of machines in use: at its default it leaves them as they are
};

const std::vector<Setting>& machine_settings();
/// A value of base units as files have it: "64 KiB".
std::string setting_text(SettingUnit unit, double value);
/// Settings of chips of several cores: memory regions, multicast.
std::vector<Setting> region_settings();
/// "network.kind": a name, a name with sizes, or a file.
Setting network_kind();
/// What contradicts between memory, regions and cores; UserError with the place.
void check_memory(const Machine& machine);
/// Settings of multipliers that skip zeros, in the place of an array.
std::vector<Setting> sparse_settings();
/// What contradicts among them; UserError with the place.
void check_sparse(const Machine& machine, const std::string& place);
/// Settings of the core as instructions see it.
std::vector<Setting> isa_settings();
/// Settings of the cache before the memory channels.
std::vector<Setting> cache_settings();
/// What contradicts within the cache's settings, with the place; nothing without a cache.
void check_cache(const Machine& machine, const std::string& place);
/// Settings of how addresses fall on channels and banks.
std::vector<Setting> address_settings();
/// Settings of the lowering profile, by section.
std::vector<Setting> lowering_settings();
/// Makes the sections of the profile that a file has, empty ones too, with their defaults.
void begin_lowering(Machine& machine, const Json& json);
/// A machine at its defaults that has every section.
Machine machine_of_defaults();
/// Sets the value that a dotted path names, in objects within objects as files have them.
void put_setting(Json& object, const std::string& path, Json value);
/// Unit as users read it: "Hz", "bytes", ...
std::string unit_name(SettingUnit unit);
/// JSON schema of a machine file.
Json machine_schema();
/// Markdown table: setting, unit, range, default, description.
std::string machine_documentation();

}  // namespace tilesim
