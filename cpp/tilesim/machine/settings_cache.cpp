// Settings of the cache or shared level before the memory channels.
#include <bit>

#include "tilesim/base/error.hpp"
#include "tilesim/machine/settings.hpp"
#include "tilesim/machine/settings_text.hpp"

namespace tilesim {

namespace {

using U = SettingUnit;
using Member = std::int64_t CacheSpec::*;

Setting number(const char* key, U unit, std::int64_t low, std::int64_t high, std::string description, Member member) {
  return {std::string("memory.cache.") + key,
          unit,
          static_cast<double>(low),
          static_cast<double>(high),
          std::move(description),
          {},
          [member, unit](const Machine& m) {
            const std::int64_t value = m.memory.cache.*member;
            return unit == U::count ? Json(value) : Json(format_with(value, unit));
          },
          [member, unit, low, high](Machine& m, const Json& json) {
            // Sizes may also be numbers of bytes, as in the cache of a trace.
            const std::int64_t value = json.is_string() ? parse_with(json, unit) : json.as_int();
            check_range(json, static_cast<double>(value), static_cast<double>(low), static_cast<double>(high), unit);
            m.memory.cache.*member = value;
          },
          true};
}

/// One of two words.
Setting either(const char* key, std::string yes, std::string no, std::string description, bool CacheSpec::* member) {
  const std::vector<std::string> allowed{yes, no};
  return {std::string("memory.cache.") + key,
          U::text,
          0,
          0,
          std::move(description),
          allowed,
          [member, yes, no](const Machine& m) { return Json(m.memory.cache.*member ? yes : no); },
          [member, allowed](Machine& m, const Json& json) {
            const std::string& text = json.as_string();
            if (text != allowed[0] && text != allowed[1])
              json.fail("unknown value", join(allowed), nearest(text, allowed));
            m.memory.cache.*member = text == allowed[0];
          },
          true};
}

bool power_of_two(std::int64_t value) { return value > 0 && std::has_single_bit(static_cast<std::uint64_t>(value)); }

}  // namespace

std::vector<Setting> cache_settings() {
  constexpr std::int64_t most = std::int64_t{1} << 24;
  std::vector<Setting> all;
  all.push_back(
      number("sets", U::count, 0, most, "sets of a slice; each channel has one slice; 0: no cache", &CacheSpec::sets));
  all.push_back(
      number("ways", U::count, 1, 1 << 16, "lines of a set; the least recently used is replaced", &CacheSpec::ways));
  all.push_back(number("line", U::bytes, 1, 1 << 16, "bytes of a line, which has a tag", &CacheSpec::line_bytes));
  all.push_back(number("sector", U::bytes, 1, 1 << 12, "bytes of a sector, which is fetched and written as a whole",
                       &CacheSpec::sector_bytes));
  all.push_back(
      number("hit_cycles", U::count, 1, 1 << 16, "from a request to its data, network cycles", &CacheSpec::hit_cycles));
  all.push_back(
      number("ports", U::count, 1, 64, "requests of a sector per network cycle and slice", &CacheSpec::ports));
  all.push_back(number("bytes_per_cycle", U::count, 0, 1 << 16, "bytes per network cycle and port; 0: a sector",
                       &CacheSpec::bytes_per_cycle));
  all.push_back(
      number("mshrs", U::count, 1, 1 << 16, "sectors being fetched per slice; more misses wait", &CacheSpec::mshrs));
  all.push_back(number("mshr_targets", U::count, 1, 1 << 16,
                       "requests that wait for one sector; more wait before the cache", &CacheSpec::mshr_targets));
  all.push_back(either("write", "back", "through", "when written data goes to memory", &CacheSpec::write_back));
  all.push_back({"memory.cache.write_allocate",
                 U::flag,
                 0,
                 1,
                 "a write that misses allocates a line",
                 {},
                 [](const Machine& m) { return Json(m.memory.cache.write_allocate); },
                 [](Machine& m, const Json& json) { m.memory.cache.write_allocate = json.as_bool(); },
                 true});
  all.push_back(either("managed", "software", "hardware",
                       "software: holds only the tensors of a residency plan (TPU CMEM); hardware: caches all traffic, "
                       "or the plan's tensors",
                       &CacheSpec::software));
  return all;
}

void check_cache(const Machine& machine, const std::string& place) {
  const CacheSpec& cache = machine.memory.cache;
  if (cache.sets == 0) return;
  const auto fail = [&](const char* what, const std::string& value, const std::string& allowed) {
    throw UserError({what, place, value, allowed, {}});
  };
  const std::string line = std::to_string(cache.line_bytes) + " B", sector = std::to_string(cache.sector_bytes) + " B";
  if (!power_of_two(cache.line_bytes)) fail("wrong size of a line", line, "a power of two");
  if (!power_of_two(cache.sector_bytes)) fail("wrong size of a sector", sector, "a power of two");
  if (cache.line_bytes < cache.sector_bytes || cache.line_bytes > 64 * cache.sector_bytes)
    fail("the line does not hold a valid number of sectors", "lines of " + line + ", sectors of " + sector,
         "1 to 64 to a line");
  if (cache.sector_bytes % machine.memory.burst_bytes != 0)
    fail("a sector must be a whole number of bursts", sector,
         "a multiple of memory.burst_bytes, " + std::to_string(machine.memory.burst_bytes) + " B");
  if (machine.memory.channels > 1 && machine.memory.interleave_bytes % cache.sector_bytes != 0)
    fail("sectors lie on several channels", sector,
         "a divisor of memory.interleave_bytes, " + std::to_string(machine.memory.interleave_bytes) + " B");
  constexpr std::int64_t most = 1 << 25;  // limit over all slices: the simulation keeps every line
  if (cache.sets > most || cache.ways > most || cache.sets * cache.ways > most / machine.memory.channels)
    fail("too many lines in the cache",
         std::to_string(cache.sets) + " sets of " + std::to_string(cache.ways) + " lines before each of " +
             std::to_string(machine.memory.channels) + " channels",
         "at most " + std::to_string(most) + " lines in all");
}

}  // namespace tilesim
