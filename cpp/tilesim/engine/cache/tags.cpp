#include "tilesim/engine/cache/tags.hpp"

#include <bit>

#include "tilesim/base/error.hpp"
#include "tilesim/base/units.hpp"

namespace tilesim::engine::cache {

Spec read_spec(const Json& json, std::int64_t burst) {
  ObjectReader reader(json);
  Spec spec;
  spec.sets = 1024;
  const auto bytes = [&](const char* key, std::int64_t fallback) {
    const Json* value = reader.optional(key);
    if (!value) return fallback;
    const std::int64_t given = value->is_string() ? parse_bytes(value->as_string()) : value->as_int();
    if (given < 1 || !std::has_single_bit(static_cast<std::uint64_t>(given)))
      value->fail("wrong size: " + std::to_string(given) + " B", "a power of two");
    return given;
  };
  spec.sets = reader.integer_or("sets", spec.sets, 1, 1 << 24);
  spec.ways = reader.integer_or("ways", spec.ways, 1, 1 << 16);
  spec.line_bytes = bytes("line", spec.line_bytes);
  spec.sector_bytes = bytes("sector", spec.sector_bytes);
  spec.hit_cycles = reader.integer_or("hit_cycles", spec.hit_cycles, 1, 1 << 16);
  spec.ports = reader.integer_or("ports", spec.ports, 1, 1 << 10);
  spec.bytes_per_cycle = reader.integer_or("bytes_per_cycle", spec.bytes_per_cycle, 0, 1 << 16);
  spec.mshrs = reader.integer_or("mshrs", spec.mshrs, 1, 1 << 16);
  spec.mshr_targets = reader.integer_or("mshr_targets", spec.mshr_targets, 1, 1 << 16);
  const std::string write = reader.string_or("write", "back");
  if (write != "back" && write != "through")
    json.at("write").fail("unknown write policy '" + write + "'", "back, through");
  spec.write_back = write == "back";
  spec.write_allocate = reader.boolean_or("write_allocate", true);
  reader.finish();
  if (spec.sector_bytes % burst != 0)
    json.fail("sectors of " + std::to_string(spec.sector_bytes) + " B and bursts of " + std::to_string(burst) + " B",
              "sectors of whole bursts");
  if (spec.line_bytes < spec.sector_bytes || spec.line_bytes > 64 * spec.sector_bytes)
    json.fail(
        "lines of " + std::to_string(spec.line_bytes) + " B and sectors of " + std::to_string(spec.sector_bytes) + " B",
        "1 to 64 sectors to a line");
  if (spec.sets * spec.ways > 1LL << 26)
    json.fail("too many lines: " + std::to_string(spec.sets * spec.ways), "at most 67108864 in a slice");
  return spec;
}

Tags::Tags(const Spec& spec)
    : line_bytes_(static_cast<std::uint64_t>(spec.line_bytes)),
      line_mask_(line_bytes_ - 1),
      sector_bytes_(static_cast<std::uint64_t>(spec.sector_bytes)),
      ways_(static_cast<std::uint64_t>(spec.ways)),
      sets_(static_cast<std::size_t>(spec.sets)),
      lines_(static_cast<std::size_t>(spec.sets * spec.ways)) {}

bool Tags::holds(std::uint64_t address) const {
  const auto found = place_.find(address / line_bytes_);
  return found != place_.end() && (lines_[found->second].valid & bit_of(address)) != 0;
}

void Tags::unlink(Set& set, std::uint32_t slot) {
  const Line& line = lines_[slot];
  (line.newer == none ? set.newest : lines_[line.newer].older) = line.older;
  (line.older == none ? set.oldest : lines_[line.older].newer) = line.newer;
}

void Tags::make_newest(Set& set, std::uint32_t slot) {
  lines_[slot].older = set.newest;
  lines_[slot].newer = none;
  (set.newest == none ? set.oldest : lines_[set.newest].newer) = slot;
  set.newest = slot;
}

void Tags::touch(std::uint64_t address, bool dirty) {
  const std::uint64_t number = address / line_bytes_;
  const std::uint32_t slot = place_.at(number);
  Set& set = sets_[set_of(number)];
  if (set.newest != slot) {
    unlink(set, slot);
    make_newest(set, slot);
  }
  if (dirty) lines_[slot].dirty |= bit_of(address);
}

const std::vector<Tags::Victim>& Tags::insert(std::uint64_t address, bool dirty, std::int32_t owner) {
  written_back_.clear();
  const std::uint64_t number = address / line_bytes_;
  if (!place_.contains(number)) {
    const std::size_t index = set_of(number);
    Set& set = sets_[index];
    std::uint32_t slot = static_cast<std::uint32_t>(index * ways_ + set.used);
    if (set.used < ways_) {
      ++set.used;
    } else {
      slot = set.oldest;
      unlink(set, slot);
      const Line& victim = lines_[slot];
      for (std::uint64_t rest = victim.dirty; rest != 0; rest &= rest - 1)
        written_back_.push_back(
            {victim.number * line_bytes_ + static_cast<std::uint64_t>(std::countr_zero(rest)) * sector_bytes_,
             victim.owner});
      place_.erase(victim.number);
    }
    lines_[slot] = {};
    lines_[slot].number = number;
    lines_[slot].owner = owner;
    make_newest(set, slot);
    place_[number] = slot;
  }
  lines_[place_.at(number)].valid |= bit_of(address);
  touch(address, dirty);
  return written_back_;
}

std::int64_t Tags::dirty_sectors() const {
  std::int64_t count = 0;
  for (const auto& [number, slot] : place_) count += std::popcount(lines_[slot].dirty);
  return count;
}

}  // namespace tilesim::engine::cache
