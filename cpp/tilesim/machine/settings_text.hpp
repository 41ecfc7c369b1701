// Values of settings as text with units.
#pragma once

#include "tilesim/machine/settings.hpp"

namespace tilesim {

std::string format_with(std::int64_t value, SettingUnit unit);
/// Parses a value with its unit to base units; throws UserError with the place.
std::int64_t parse_with(const Json& json, SettingUnit unit);
void check_range(const Json& json, double value, double low, double high, SettingUnit unit);

}  // namespace tilesim
