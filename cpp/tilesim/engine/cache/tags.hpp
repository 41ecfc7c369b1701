// Tags of a sectored cache: valid and dirty bits per sector, and time-independent least-recently-used replacement.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "tilesim/base/json/json.hpp"
#include "tilesim/machine/machine.hpp"

namespace tilesim::engine::cache {

/// Parameters of one cache slice; a memory with n channels has n slices, one in front of each channel.
using Spec = CacheSpec;
/// Reads {"sets": 1024, "ways": 16, ...}; missing keys have the default of a machine file, and 1024 sets. `burst`:
/// bytes of a memory burst. Throws UserError with the key for an unknown key or a value out of range.
Spec read_spec(const Json& json, std::int64_t burst);

class Tags {
 public:
  explicit Tags(const Spec& spec);

  bool holds(std::uint64_t address) const;
  struct Victim {
    std::uint64_t address = 0;
    std::int32_t owner = 0;
  };
  /// Marks a sector valid, owned by `owner`; its line becomes the most recent. Returns the evicted dirty sectors.
  const std::vector<Victim>& insert(std::uint64_t address, bool dirty, std::int32_t owner);
  /// Makes the line of a cached sector the most recently used; `dirty` marks the sector as dirty.
  void touch(std::uint64_t address, bool dirty);
  std::int64_t dirty_sectors() const;

 private:
  static constexpr std::uint32_t none = 0xffffffff;
  struct Line {
    std::uint64_t number = 0;  ///< address / line size in bytes
    std::uint64_t valid = 0, dirty = 0;
    std::uint32_t newer = none, older = none;
    std::int32_t owner = 0;
  };
  struct Set { std::uint32_t newest = none, oldest = none, used = 0; };

  std::uint64_t bit_of(std::uint64_t address) const { return 1ULL << (address & line_mask_) / sector_bytes_; }
  std::size_t set_of(std::uint64_t number) const { return number % sets_.size(); }
  void unlink(Set& set, std::uint32_t slot);
  void make_newest(Set& set, std::uint32_t slot);

  std::uint64_t line_bytes_, line_mask_, sector_bytes_, ways_;
  std::vector<Set> sets_;
  std::vector<Line> lines_;  ///< the lines (ways) of set 0, then those of set 1, ...
  std::unordered_map<std::uint64_t, std::uint32_t> place_;
  std::vector<Victim> written_back_;
};

}  // namespace tilesim::engine::cache
