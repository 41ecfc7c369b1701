// Types of quantities (cycles, bytes, hertz), and clocks whose times compare exactly.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace tilesim {

__extension__ using Int128 = __int128;  ///< for exact products of 64-bit counts

/// The frequency of a clock in hertz; periods are never rounded.
struct Clock {
  std::int64_t hertz = 1;
  friend bool operator==(const Clock&, const Clock&) = default;
};

/// A point in time as a number of cycles of a clock. Cross-multiplication compares points of different clocks exactly.
struct Instant {
  std::int64_t cycles = 0;
  std::int64_t hertz = 1;
};
inline std::strong_ordering compare(const Instant& a, const Instant& b) {
  const auto left = static_cast<Int128>(a.cycles) * b.hertz;
  const auto right = static_cast<Int128>(b.cycles) * a.hertz;
  return left <=> right;
}
/// The first cycle of `clock` that does not begin before `t`.
std::int64_t cycles_at_or_after(const Instant& t, Clock clock);

/// Each parser below reads a quantity with unit, as in machine files. Throws UserError for a missing or wrong unit.
/// "940 MHz" -> 940000000; "1.5 GHz"
std::int64_t parse_frequency(std::string_view text);
/// "16 MiB", "32 KiB", "64 B", "1 GB" (decimal) -> bytes
std::int64_t parse_bytes(std::string_view text);
/// "450 GB/s", "1.2 TB/s", "614 GiB/s" -> bytes per second
std::int64_t parse_bandwidth(std::string_view text);
/// "100 ns", "1.5 us" -> picoseconds
std::int64_t parse_duration(std::string_view text);
/// "909 pJ", "1.2 nJ" -> femtojoules
std::int64_t parse_energy(std::string_view text);
std::string format_bytes(std::int64_t bytes);
std::string format_frequency(std::int64_t hertz);

}  // namespace tilesim
