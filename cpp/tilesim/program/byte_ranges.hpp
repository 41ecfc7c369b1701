// Tracks which bytes of a core's memories are in use.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

namespace tilesim::program {

/// Disjoint ranges of bytes, each with an owner. Scratchpad and accumulator memory have separate ranges.
template <class Owner>
class ByteRanges {
 public:
  /// The owner of a range that overlaps [low, high); null if all these bytes are free.
  const Owner* overlapping(bool accumulator, std::int64_t low, std::int64_t high) const {
    auto after = ranges_.lower_bound({accumulator, high});
    if (after == ranges_.begin()) return nullptr;
    const auto& [key, range] = *--after;
    return key.first == accumulator && range.high > low ? &range.owner : nullptr;
  }
  void take(bool accumulator, std::int64_t low, std::int64_t high, Owner owner) {
    ranges_.insert_or_assign({accumulator, low}, Range{high, std::move(owner)});
  }
  void free(bool accumulator, std::int64_t low) { ranges_.erase({accumulator, low}); }
  template <class Visit>
  void each(Visit visit) const {
    for (const auto& [key, range] : ranges_) visit(range.owner);
  }

 private:
  struct Range {
    std::int64_t high;
    Owner owner;
  };
  std::map<std::pair<bool, std::int64_t>, Range> ranges_;
};

}  // namespace tilesim::program
