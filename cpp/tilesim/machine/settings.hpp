// The table of all settings of a machine. Parser, schema, documentation and search space follow from it.
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
  double low, high;  ///< in base units; unused for text and flag
  std::string description;
  std::vector<std::string> allowed;                ///< allowed values of a text
  std::function<Json(const Machine&)> get;         ///< value as in a file; null: the machine has no such section
  std::function<void(Machine&, const Json&)> set;  ///< parses and checks; throws UserError with the place
  bool added = false;                              ///< added later: hashes of machines ignore the default
};

const std::vector<Setting>& machine_settings();
/// Formats a value in base units as text: "64 KiB".
std::string setting_text(SettingUnit unit, double value);
/// Settings of chips with several cores: memory regions, multicast.
std::vector<Setting> region_settings();
/// The setting "network.kind": a name, a name with sizes, or a file.
Setting network_kind();
/// Throws UserError with the place if settings of memory, regions and cores contradict each other.
void check_memory(const Machine& machine);
/// Settings of multipliers that skip zeros.
std::vector<Setting> sparse_settings();
/// Throws UserError with the place if these settings contradict each other.
void check_sparse(const Machine& machine, const std::string& place);
/// Settings of the core at instruction level.
std::vector<Setting> isa_settings();
/// Settings of the cache in front of the memory channels.
std::vector<Setting> cache_settings();
/// Throws UserError with the place if settings of the cache contradict each other.
void check_cache(const Machine& machine, const std::string& place);
/// Settings of the mapping from addresses to channels and banks.
std::vector<Setting> address_settings();
/// Settings of the lowering profile, by section.
std::vector<Setting> lowering_settings();
/// Creates the sections of the lowering profile that the file has, also empty ones, with their defaults.
void begin_lowering(Machine& machine, const Json& json);
/// A machine with every section, and every setting at its default.
Machine machine_of_defaults();
/// Sets the value at a dotted path; creates nested objects as in a file.
void put_setting(Json& object, const std::string& path, Json value);
/// Name of a unit in texts for users: "Hz", "bytes", ...
std::string unit_name(SettingUnit unit);
/// JSON schema of a machine file.
Json machine_schema();
/// Markdown table of settings: path, unit, range, default, description.
std::string machine_documentation();

}  // namespace tilesim
