#include "tilesim/machine/settings_text.hpp"

#include <cmath>
#include <cstdio>

#include "tilesim/base/error.hpp"

namespace tilesim {

namespace {

using U = SettingUnit;

std::string plain(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e15) return std::to_string(static_cast<std::int64_t>(value));
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

}  // namespace

std::string format_with(std::int64_t value, SettingUnit unit) {
  switch (unit) {
    case U::frequency:
      return format_frequency(value);
    case U::bytes:
      return format_bytes(value);
    case U::bandwidth:
      if (value % 1000000000 == 0) return std::to_string(value / 1000000000) + " GB/s";
      return value % 1000000 == 0 ? std::to_string(value / 1000000) + " MB/s" : std::to_string(value) + " B/s";
    case U::duration:
      return value % 1000 == 0 ? std::to_string(value / 1000) + " ns" : std::to_string(value) + " ps";
    case U::energy:
      return value % 1000 == 0 ? std::to_string(value / 1000) + " pJ" : std::to_string(value) + " fJ";
    default:
      return std::to_string(value);
  }
}

std::int64_t parse_with(const Json& json, SettingUnit unit) {
  // A bare number also goes to the parser, whose error lists the units.
  const auto text = [&json] { return json.is_number() ? plain(json.as_double()) : json.as_string(); };
  try {
    switch (unit) {
      case U::frequency:
        return parse_frequency(text());
      case U::bytes:
        return parse_bytes(text());
      case U::bandwidth:
        return parse_bandwidth(text());
      case U::duration:
        return parse_duration(text());
      case U::energy:
        return parse_energy(text());
      default:
        return json.as_int();
    }
  } catch (const UserError& error) {
    if (!error.parts().place.empty()) throw;
    throw UserError(
        {error.parts().what, json.place(), error.parts().value, error.parts().allowed, error.parts().suggestion});
  }
}

void check_range(const Json& json, double value, double low, double high, SettingUnit unit) {
  if (value >= low && value <= high) return;
  json.fail("out of range", setting_text(unit, low) + " to " + setting_text(unit, high));
}

std::string setting_text(SettingUnit unit, double value) {
  return unit == U::ratio ? plain(value) : format_with(static_cast<std::int64_t>(value), unit);
}

}  // namespace tilesim
