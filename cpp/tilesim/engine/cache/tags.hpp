// What a sectored cache holds: tags, valid and dirty sectors, least recently used first out. No time.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "tilesim/base/json.hpp"

namespace tilesim::engine::cache {

/// One slice of a cache; a memory of n channels has n slices, each before its channel.
struct Spec {
  std::int64_t sets = 1024, ways = 16;
  std::int64_t line_bytes = 128, sector_bytes = 32;  ///< tags are kept per line, data is fetched by sectors
  std::int64_t hit_cycles = 1;                       ///< from a request to its data, or to its request of memory
  std::int64_t ports = 1;                            ///< requests per cycle
  std::int64_t mshrs = 64;                           ///< sectors being fetched; more misses wait, and what follows them
  std::int64_t mshr_targets = 8;                     ///< requests that wait for one sector; more wait at the door
  bool write_back = true;                            ///< otherwise every write goes through to memory
  bool write_allocate = true;                        ///< a write that misses takes a line

  /// UserError with the place for an unknown key or a value out of range. `burst` is the memory's.
  static Spec from_json(const Json& json, std::int64_t burst);
  std::int64_t bytes() const { return sets * ways * line_bytes; }
};

class Tags {
 public:
  explicit Tags(const Spec& spec);

  bool holds(std::uint64_t address) const;
  /// Makes a sector valid and its line the most recent. Returns the addresses of dirty sectors that had to go.
  const std::vector<std::uint64_t>& insert(std::uint64_t address, bool dirty);
  /// The line of a held sector is the most recent.
  void touch(std::uint64_t address, bool dirty);
  std::int64_t dirty_sectors() const;

 private:
  static constexpr std::uint32_t none = 0xffffffff;
  struct Line {
    std::uint64_t number = 0;  ///< address / line bytes
    std::uint64_t valid = 0, dirty = 0;
    std::uint32_t newer = none, older = none;
  };
  struct Set { std::uint32_t newest = none, oldest = none, used = 0; };

  std::uint64_t bit_of(std::uint64_t address) const { return 1ULL << (address & line_mask_) / sector_bytes_; }
  std::size_t set_of(std::uint64_t number) const { return number % sets_.size(); }
  void unlink(Set& set, std::uint32_t slot);
  void make_newest(Set& set, std::uint32_t slot);

  std::uint64_t line_bytes_, line_mask_, sector_bytes_, ways_;
  std::vector<Set> sets_;
  std::vector<Line> lines_;  ///< ways of set 0, of set 1, ...
  std::unordered_map<std::uint64_t, std::uint32_t> place_;
  std::vector<std::uint64_t> written_back_;
};

}  // namespace tilesim::engine::cache
