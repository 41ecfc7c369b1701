#include "tilesim/machine/settings_text.hpp"

#include <cmath>

#include "tilesim/base/error.hpp"

namespace tilesim {

namespace {

using U = SettingUnit;

std::string plain(double value) {
  return value == std::floor(value) && std::abs(value) < 1e15 ? std::to_string(static_cast<std::int64_t>(value))
                                                              : std::to_string(value);
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
  try {
    switch (unit) {
      case U::frequency:
        return parse_frequency(json.as_string());
      case U::bytes:
        return parse_bytes(json.as_string());
      case U::bandwidth:
        return parse_bandwidth(json.as_string());
      case U::duration:
        return parse_duration(json.as_string());
      case U::energy:
        return parse_energy(json.as_string());
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
