#include "tilesim/base/units.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tilesim/base/error.hpp"

namespace tilesim {

std::int64_t cycles_at_or_after(const Instant& t, Clock clock) {
  const Int128 product = static_cast<Int128>(t.cycles) * clock.hertz;
  const Int128 quotient = product / t.hertz;  // rounds toward zero, which is the ceiling of a negative quotient
  const Int128 cycles = quotient * t.hertz < product ? quotient + 1 : quotient;
  require(cycles <= std::numeric_limits<std::int64_t>::max(), "an instant is beyond 2^63 cycles of a clock");
  return static_cast<std::int64_t>(cycles);
}

namespace {

struct Unit {
  std::string_view name;
  std::int64_t factor;
};

constexpr std::int64_t kilo = 1'000, mega = kilo * kilo, giga = mega * kilo, tera = giga * kilo, peta = tera * kilo;
constexpr std::int64_t kibi = 1'024, mebi = kibi * kibi, gibi = mebi * kibi, tebi = gibi * kibi;

/// The first entry of each list is the base unit.
constexpr Unit frequencies[] = {{"Hz", 1}, {"kHz", kilo}, {"MHz", mega}, {"GHz", giga}};
constexpr Unit sizes[] = {{"B", 1},     {"KiB", kibi}, {"MiB", mebi}, {"GiB", gibi}, {"TiB", tebi},
                          {"kB", kilo}, {"KB", kilo},  {"MB", mega},  {"GB", giga},  {"TB", tera}};
constexpr Unit bandwidths[] = {{"B/s", 1},     {"KiB/s", kibi}, {"MiB/s", mebi}, {"GiB/s", gibi}, {"TiB/s", tebi},
                               {"kB/s", kilo}, {"KB/s", kilo},  {"MB/s", mega},  {"GB/s", giga},  {"TB/s", tera}};
constexpr Unit durations[] = {{"ps", 1}, {"ns", kilo}, {"us", mega}, {"ms", giga}, {"s", tera}};
constexpr Unit energies[] = {{"fJ", 1}, {"pJ", kilo}, {"nJ", mega}, {"uJ", giga}, {"mJ", tera}, {"J", peta}};

/// A decimal number as digits * 10^exponent, so that "1.1 GHz" is exact.
struct Decimal {
  std::int64_t digits = 0;
  int exponent = 0;
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Removes an unsigned decimal number with optional fraction and exponent from the start of `text`.
bool take_number(std::string_view& text, Decimal& number) {
  std::size_t i = 0;
  bool any = false, fraction = false;
  for (; i < text.size() && (is_digit(text[i]) || (text[i] == '.' && !fraction)); ++i) {
    if (text[i] == '.') {
      fraction = true;
      continue;
    }
    any = true;
    if (__builtin_mul_overflow(number.digits, std::int64_t{10}, &number.digits)) return false;
    if (__builtin_add_overflow(number.digits, std::int64_t{text[i] - '0'}, &number.digits)) return false;
    number.exponent -= fraction ? 1 : 0;
  }
  if (i + 1 < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    std::size_t j = i + 1;
    const bool negative = text[j] == '-';
    if (text[j] == '-' || text[j] == '+') ++j;
    const std::size_t begin = j;
    int exponent = 0;
    for (; j < text.size() && is_digit(text[j]) && exponent < 1000; ++j) exponent = exponent * 10 + (text[j] - '0');
    if (j > begin) {
      number.exponent += negative ? -exponent : exponent;
      i = j;
    }
  }
  text.remove_prefix(i);
  return any;
}

std::string unit_list(std::span<const Unit> units) {
  std::string text;
  for (const Unit& unit : units) {
    text += text.empty() ? "a number and one of " : ", ";
    text += unit.name;
  }
  return text;
}

/// Computes digits * 10^exponent * factor; returns false if the result is not an integer of 63 bits.
bool scale(Decimal number, std::int64_t factor, std::int64_t& result) {
  Int128 value = static_cast<Int128>(number.digits) * factor;
  for (; number.exponent < 0 && value != 0; ++number.exponent) {
    if (value % 10 != 0) return false;
    value /= 10;
  }
  for (; number.exponent > 0 && value != 0; --number.exponent) {
    value *= 10;
    if (value > std::numeric_limits<std::int64_t>::max()) return false;
  }
  result = static_cast<std::int64_t>(value);
  return value <= std::numeric_limits<std::int64_t>::max();
}

/// The suggestion for a unit of bits, "Gb/s" or "Gbps": the number in bytes; else `close`.
std::string in_bytes(Decimal number, std::string_view unit, const std::vector<std::string>& names,
                     const std::string& close) {
  std::string bytes(unit);
  if (bytes.ends_with("bps")) bytes.replace(bytes.size() - 2, 2, "/s");
  const std::size_t bit = bytes.find('b');
  if (bit == std::string::npos) return close;
  bytes[bit] = 'B';
  if (std::ranges::find(names, bytes) == names.end()) return close;
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", static_cast<double>(number.digits) * std::pow(10.0, number.exponent) / 8);
  return std::string(unit) + " are bits. Write '" + text + " " + bytes + "'";
}

std::int64_t parse_quantity(std::string_view text, const char* what, std::span<const Unit> units) {
  const auto fail = [&](const std::string& reason, const std::string& suggestion = {}) -> std::int64_t {
    throw UserError(
        {std::string(what) + " " + reason, {}, "'" + std::string(text) + "'", unit_list(units), suggestion});
  };
  std::string_view rest = text;
  Decimal number;
  if (!rest.empty() && rest.front() == '-') return fail("cannot be negative");
  if (!take_number(rest, number)) return fail("needs a number");
  while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
  if (rest.empty()) return fail("needs a unit");
  std::vector<std::string> names;
  for (const Unit& unit : units) {
    names.emplace_back(unit.name);
    if (rest != unit.name) continue;
    std::int64_t value = 0;
    if (!scale(number, unit.factor, value))
      return fail("must be a whole number of " + std::string(units.front().name) + " below 2^63");
    return value;
  }
  if (rest.front() == ',') return fail("has a comma in its number", "The decimal sign is a point: 1.5");
  return fail("has an unknown unit", in_bytes(number, rest, names, nearest(rest, names)));
}

std::string scaled(std::int64_t value, std::span<const Unit> units) {
  const Unit* best = &units.front();
  for (const Unit& unit : units)
    if (value != 0 && value % unit.factor == 0 && unit.factor > best->factor) best = &unit;
  return std::to_string(value / best->factor) + " " + std::string(best->name);
}

}  // namespace

std::int64_t parse_frequency(std::string_view text) { return parse_quantity(text, "a frequency", frequencies); }
std::int64_t parse_bytes(std::string_view text) { return parse_quantity(text, "a size", sizes); }
std::int64_t parse_bandwidth(std::string_view text) { return parse_quantity(text, "a bandwidth", bandwidths); }
std::int64_t parse_duration(std::string_view text) { return parse_quantity(text, "a duration", durations); }
std::int64_t parse_energy(std::string_view text) { return parse_quantity(text, "an energy", energies); }

std::string format_bytes(std::int64_t bytes) { return scaled(bytes, std::span(sizes).first(5)); }
std::string format_frequency(std::int64_t hertz) { return scaled(hertz, frequencies); }

}  // namespace tilesim
