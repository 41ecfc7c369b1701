// Maps addresses to regions of a memory by placement of tensors, and to addresses within the regions.
#pragma once

#include <algorithm>
#include <map>
#include <unordered_map>
#include <vector>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/engine/memory/memory.hpp"

namespace tilesim::engine {

class RegionMap {
 public:
  static constexpr std::int64_t page = 4096;
  struct RegionRange { std::int64_t region = 0, address = 0, bytes = 0; };  ///< address within the region

  explicit RegionMap(const Machine& machine)
      : regions_(machine.memory.regions),
        cores_(machine.core.count),
        channels_(machine.memory.channels),
        interleave_(std::max(machine.memory.interleave_bytes, machine.memory.burst_bytes)),
        next_(static_cast<std::size_t>(regions_), 0) {
    if (channels_ % regions_ != 0 || cores_ % regions_ != 0)
      throw UserError(
          {"cores and channels do not fall into equal regions",
           "memory.regions",
           std::to_string(regions_),
           "a divisor of " + std::to_string(channels_) + " channels and " + std::to_string(cores_) + " cores",
           {}});
  }

  std::int64_t regions() const { return regions_; }
  std::int64_t channels() const { return channels_ / regions_; }  ///< per region
  std::int64_t home(std::int64_t core) const { return core % cores_ * regions_ / cores_; }

  /// Places bytes [low, high), full pages.
  void place(std::int64_t low, std::int64_t high, std::int32_t placement) {
    Range range{low, high, placement, 0};
    if (placement == interleaved) {
      range.base = round_up(*std::max_element(next_.begin(), next_.end()), page);
      const std::int64_t share =
          round_up(ceil_div(high - low, interleave_ * channels_) * interleave_ * channels(), page);
      for (std::int64_t& next : next_) next = range.base + share;
    } else if (placement >= 0) {
      range.base = next_[static_cast<std::size_t>(placement)];
      next_[static_cast<std::size_t>(placement)] += high - low;
    }
    ranges_[low] = range;
  }

  /// Declares that bytes [low, high), full placed ranges, will not be accessed again.
  void forget(std::int64_t low, std::int64_t high) {
    const auto begin = ranges_.lower_bound(low), end = ranges_.lower_bound(high);
    const bool touched = std::any_of(begin, end, [](const auto& range) { return range.second.placement == local; });
    ranges_.erase(begin, end);
    if (!touched) return;
    if ((high - low) / page < static_cast<std::int64_t>(pages_.size()))
      for (std::int64_t at = low / page; at < high / page; ++at) pages_.erase(at);
    else
      std::erase_if(pages_, [&](const auto& own) { return own.first >= low / page && own.first < high / page; });
  }

  /// Visits contiguous bytes in pieces, one region each.
  template <class Visit>
  void split(std::int64_t address, std::int64_t size, std::int64_t home, Visit visit) {
    auto found = ranges_.upper_bound(address);
    const Range range = found == ranges_.begin() ? Range{} : std::prev(found)->second;
    std::int64_t at = address - range.low, left = size;
    if (range.placement >= 0) {
      visit(RegionRange{range.placement, range.base + at, left});
      return;
    }
    while (left > 0) {
      const std::int64_t unit = range.placement == local ? page : interleave_;
      const std::int64_t bytes = std::min(left, unit - at % unit);
      if (range.placement == local) {
        const Page& own = touched(range.low + at, home);
        visit(RegionRange{own.region, own.address + at % page, bytes});
      } else {
        const std::int64_t row = at / unit / channels_, channel = at / unit % channels_;
        visit(RegionRange{channel / channels(),
                          range.base + (row * channels() + channel % channels()) * unit + at % unit, bytes});
      }
      at += bytes;
      left -= bytes;
    }
  }

 private:
  struct Range {
    std::int64_t low = 0, high = 0;
    std::int32_t placement = interleaved;
    std::int64_t base = 0;  ///< address within its region
  };
  struct Page { std::int64_t region = 0, address = 0; };

  const Page& touched(std::int64_t address, std::int64_t home) {
    const auto [entry, fresh] = pages_.try_emplace(address / page);
    if (fresh) {
      std::int64_t& next = next_[static_cast<std::size_t>(home)];
      entry->second = {home, next};
      next += page;
    }
    return entry->second;
  }

  std::int64_t regions_, cores_, channels_, interleave_;
  std::vector<std::int64_t> next_;  ///< next free address of each region
  std::map<std::int64_t, Range> ranges_;
  std::unordered_map<std::int64_t, Page> pages_;
};

}  // namespace tilesim::engine
