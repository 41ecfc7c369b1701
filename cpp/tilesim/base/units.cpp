#include "tilesim/base/units.hpp"

#include <array>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "tilesim/base/error.hpp"

namespace tilesim {

std::int64_t cycles_at_or_after(const Instant& t, Clock clock) {
  const Int128 numerator = static_cast<Int128>(t.cycles) * clock.hertz;
  const Int128 quotient = numerator / t.hertz;
  return static_cast<std::int64_t>(quotient * t.hertz < numerator ? quotient + 1 : quotient);
}

double to_seconds(std::int64_t cycles, Clock clock) {
  return static_cast<double>(cycles) / static_cast<double>(clock.hertz);
}

namespace {

struct Unit {
  std::string_view name;
  double factor;
};

std::int64_t parse_quantity(std::string_view text, const char* what, std::initializer_list<Unit> units) {
  std::string allowed;
  for (const Unit& unit : units) allowed += (allowed.empty() ? "a number followed by " : ", ") + std::string(unit.name);
  const auto fail = [&](const std::string& reason) -> std::int64_t {
    throw UserError({std::string(what) + " " + reason, {}, "'" + std::string(text) + "'", allowed, {}});
  };
  const std::string copy(text);
  char* end = nullptr;
  const double number = std::strtod(copy.c_str(), &end);
  if (end == copy.c_str()) return fail("has no number");
  std::string_view rest(end);
  while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
  while (!rest.empty() && rest.back() == ' ') rest.remove_suffix(1);
  if (rest.empty()) return fail("has no unit");
  for (const Unit& unit : units) {
    if (rest != unit.name) continue;
    const double value = number * unit.factor;
    if (!std::isfinite(value) || value < 0) return fail("must be finite and not negative");
    if (value >= 9.2e18) return fail("is beyond 64 bits");
    const double whole = std::round(value);
    if (std::abs(value - whole) > 1e-6 * std::max(1.0, whole)) return fail("is not a whole number of the base unit");
    return static_cast<std::int64_t>(whole);
  }
  return fail("has an unknown unit");
}

}  // namespace

std::int64_t parse_frequency(std::string_view text) {
  return parse_quantity(text, "a frequency", {{"Hz", 1}, {"kHz", 1e3}, {"MHz", 1e6}, {"GHz", 1e9}});
}

std::int64_t parse_bytes(std::string_view text) {
  return parse_quantity(text, "a size",
                        {{"B", 1},
                         {"KiB", 1024.0},
                         {"MiB", 1048576.0},
                         {"GiB", 1073741824.0},
                         {"TiB", 1099511627776.0},
                         {"kB", 1e3},
                         {"KB", 1e3},
                         {"MB", 1e6},
                         {"GB", 1e9},
                         {"TB", 1e12}});
}

std::int64_t parse_bandwidth(std::string_view text) {
  return parse_quantity(text, "a bandwidth",
                        {{"B/s", 1},
                         {"MB/s", 1e6},
                         {"GB/s", 1e9},
                         {"TB/s", 1e12},
                         {"MiB/s", 1048576.0},
                         {"GiB/s", 1073741824.0},
                         {"TiB/s", 1099511627776.0}});
}

std::int64_t parse_duration(std::string_view text) {
  return parse_quantity(text, "a duration", {{"ps", 1}, {"ns", 1e3}, {"us", 1e6}, {"ms", 1e9}, {"s", 1e12}});
}

std::int64_t parse_energy(std::string_view text) {
  return parse_quantity(text, "an energy",
                        {{"fJ", 1}, {"pJ", 1e3}, {"nJ", 1e6}, {"uJ", 1e9}, {"mJ", 1e12}, {"J", 1e15}});
}

namespace {

std::string scaled(std::int64_t value, const std::vector<std::pair<std::int64_t, const char*>>& units) {
  for (const auto& [factor, unit] : units)
    if (value != 0 && value % factor == 0) return std::to_string(value / factor) + " " + unit;
  return std::to_string(value) + " " + units.back().second;
}

}  // namespace

std::string format_bytes(std::int64_t bytes) {
  return scaled(bytes,
                {{std::int64_t{1} << 40, "TiB"}, {1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}, {1, "B"}});
}

std::string format_frequency(std::int64_t hertz) {
  return scaled(hertz, {{1000000000, "GHz"}, {1000000, "MHz"}, {1000, "kHz"}, {1, "Hz"}});
}

}  // namespace tilesim
