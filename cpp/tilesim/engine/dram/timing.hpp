// A part's timing constraints as tables: the row of a command has the delay until a later command to every bank.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "tilesim/engine/dram/part.hpp"

namespace tilesim::engine::dram {

using Tick = std::int32_t;              ///< tick relative to the channel's base
inline constexpr Tick never = 1 << 30;  ///< later than any tick
inline constexpr Tick long_ago = -(1 << 30);
inline constexpr int block_lanes = 16;

/// Ticks of sixteen banks; the block fills a cache line.
struct alignas(64) Block { std::array<Tick, block_lanes> lane; };
/// Bit sets of banks; the narrow type is used for channels with at most 64 banks.
using NarrowMask = std::uint64_t;
__extension__ using WideMask = unsigned __int128;
/// Number of banks that a mask can hold.
template <class Mask>
inline constexpr int mask_banks = static_cast<int>(8 * sizeof(Mask));
static_assert(mask_banks<WideMask> == bank_limit);

template <class Mask>
inline constexpr Mask bank_bit(int bank) {
  return Mask{1} << bank;
}
/// Lowest bank of a non-empty set.
template <class Mask>
inline int first_bank(Mask banks) {
  if constexpr (sizeof(Mask) > 8) {
    const auto low = static_cast<std::uint64_t>(banks);
    return low != 0 ? std::countr_zero(low) : 64 + std::countr_zero(static_cast<std::uint64_t>(banks >> 64));
  } else {
    return std::countr_zero(banks);
  }
}
template <class Mask>
inline int bank_count(Mask banks) {
  if constexpr (sizeof(Mask) > 8)
    return std::popcount(static_cast<std::uint64_t>(banks)) + std::popcount(static_cast<std::uint64_t>(banks >> 64));
  else
    return std::popcount(banks);
}

/// One tick per bank.
template <class Mask>
struct alignas(64) PerBank {
  std::array<Tick, static_cast<std::size_t>(mask_banks<Mask>)> at;
};

struct Timing {
  explicit Timing(const Part& part);

  int banks = 0;
  int blocks = 0;   ///< number of blocks, each of sixteen banks
  int befores = 0;  ///< number of bank commands with ticks; REFpb counts only if the part uses it
  int scopes = 0;   ///< number of nodes that PREab and REFab address
  std::array<std::uint8_t, bank_limit> group_of{}, scope_of{};
  std::vector<WideMask> scope_banks;  ///< per scope: mask of its banks

  /// An effect on later `before` commands. `value`: index of the first block of delays (effects), or ticks (own_bank).
  struct Effect { std::int32_t before = 0, value = 0; };
  class Effects {
   public:
    void add(int before, std::int32_t value) { items_[count_++] = {before, value}; }
    const Effect* begin() const { return items_.data(); }
    const Effect* end() const { return items_.data() + count_; }

   private:
    std::array<Effect, bank_command_count> items_{};
    std::size_t count_ = 0;
  };
  /// Effects on banks other than the command's own. The blocks of node n start at `value + n * blocks`. Nodes are bank
  /// groups for bank commands and scopes for all-bank commands.
  std::array<Effects, command_count> effects;
  std::vector<Block> delays;  ///< ticks; long_ago: no limit
  /// Effects of bank commands on their own bank.
  std::array<Effects, bank_command_count> own_bank;

  bool columns_touch_rows = false;  ///< whether RD or WR limit ACT or PREpb of other banks
  /// First block of delays from RD to RD (0) or from WR to WR (1) in other banks; -1: no limit.
  std::array<std::int32_t, 2> own_direction{-1, -1};

  struct Window {
    int length = 0;  ///< number of commands that the window counts
    Tick cycles = 0;
    std::uint32_t after = 0;  ///< mask of counted commands
    int before = 0;
    int nodes = 0;
    std::array<std::uint8_t, bank_limit> node_of{};
    std::int32_t row = 0;  ///< first of the blocks per node: `cycles` for the node's banks, long_ago for others
  };
  std::vector<Window> windows;

  /// Delay from each command to PREab (0) or REFab (1), in the same scope and in other scopes.
  std::array<std::array<Tick, 2>, command_count> to_all_same{}, to_all_other{};
};

}  // namespace tilesim::engine::dram
