// From addresses to channels, banks and rows: a bit-order string, plus hashes.
//
// "row bank bank_group pseudo_channel column offset": fields from the most to the least significant bit. A field may be
// cut into pieces with widths ("column:3"); its last piece may leave the width out. Hashes then change one field, or
// all levels of banks together, by bits of the row: xor folds the row onto it (Zhang, Zhu and Zhang, "A
// permutation-based page interleaving scheme", MICRO 2000); ipoly takes (row, field) modulo an irreducible polynomial
// over GF(2) (Rau, "Pseudo-randomly interleaved memory", ISCA 1991). Both keep the mapping one to one.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tilesim/engine/dram/part.hpp"

namespace tilesim::engine::dram {

struct Hash {
  std::string field;  ///< a level above the row: pseudo_channel, rank, stack, bank_group, bank; all of them: "all"
  bool ipoly = false;
};

/// Folds a number onto a few bits, linearly over GF(2): one lookup for each of its bytes.
class Fold {
 public:
  Fold() = default;
  /// Onto `bits` bits, at most 12. xor: the number's digits of that many bits are added; ipoly: as the upper digits of
  /// a number modulo an irreducible polynomial of degree `bits`.
  Fold(int bits, bool ipoly);
  std::uint64_t operator()(std::uint64_t value) const {
    std::uint64_t folded = 0;
    for (std::size_t byte = 0; value != 0; value >>= 8, ++byte) folded ^= table_[byte][value & 255];
    return folded;
  }

 private:
  std::array<std::array<std::uint16_t, 256>, 8> table_{};
};

/// The setting `memory.bank_hash` of machines: "none", or a hash of all levels of banks.
std::vector<Hash> bank_hashes(const std::string& kind);

/// Reads [{"field": "bank", "kind": "xor"}, ...].
std::vector<Hash> read_hashes(const Json& json);

class AddressMap {
 public:
  struct Location { std::int32_t bank = 0, row = 0; };

  /// `order` empty: the part's own. UserError for an unknown field, or when the order does not cover the part.
  explicit AddressMap(const Part& part, const std::string& order = {}, const std::vector<Hash>& hashes = {});
  /// Bits above the row are dropped: an address beyond the capacity wraps.
  Location locate(std::uint64_t address) const {
    std::uint64_t bank = 0, row = address >> row_shift_ & row_mask_;
    if (together_) {
      bank = bank_table_[address >> bank_shift_ & bank_mask_];
    } else {
      row = 0;
      for (const BitField& p : bank_pieces_) bank |= (address >> p.shift & p.mask) << p.to;
      for (const BitField& p : row_pieces_) row |= (address >> p.shift & p.mask) << p.to;
    }
    if (!mixes_.empty()) bank ^= mixed(row);
    return {static_cast<std::int32_t>(bank), static_cast<std::int32_t>(row)};
  }
  /// Banks of the bursts of an aligned unit, each to be changed (exclusive or) by the bank of the unit's beginning:
  /// fields of an address do not touch each other. Empty where bursts of a unit lie in different rows.
  std::vector<std::uint8_t> banks_within(std::uint64_t unit, std::uint64_t burst) const;
  std::int64_t capacity_bytes() const { return capacity_; }

 private:
  struct BitField {
    int shift = 0;
    std::uint64_t mask = 0;
    int to = 0;
  };
  struct Mix {
    int to = 0;
    Fold fold;
  };
  std::uint64_t mixed(std::uint64_t row) const {
    std::uint64_t change = 0;
    for (const Mix& mix : mixes_) change ^= mix.fold(row) << mix.to;
    return change;
  }
  void tabulate();

  std::vector<BitField> bank_pieces_, row_pieces_;
  std::vector<Mix> mixes_;
  std::int64_t capacity_ = 0;
  // Where the bank's bits lie together, and the row's: one table.
  bool together_ = false;
  int bank_shift_ = 0, row_shift_ = 0;
  std::uint64_t bank_mask_ = 0, row_mask_ = 0;
  std::array<std::uint8_t, bank_limit> bank_table_{};
};

/// How strides are kept from falling on few channels: from one round over all channels to the next their order is
/// rotated, by one (skew) or by the round folded onto their number (ipoly). One to one for any number of channels.
enum class ChannelHash : std::uint8_t { none, skew, ipoly };
ChannelHash channel_hash_of(const std::string& name);  ///< UserError for an unknown one

/// Spreads addresses over any number of channels, `interleave` consecutive bytes on each.
class ChannelMap {
 public:
  ChannelMap(std::int64_t channels, std::int64_t interleave_bytes, ChannelHash hash);
  struct Target {
    std::int64_t channel = 0;
    std::uint64_t address = 0;  ///< within the channel
  };
  Target locate(std::uint64_t address) const {
    const std::uint64_t block = address >> unit_shift_;
    const std::uint64_t row = count_shift_ >= 0 ? block >> count_shift_ : block / count_;
    std::uint64_t channel = block - row * count_;
    if (hash_ == ChannelHash::skew) channel = (channel + row + row / count_) % count_;
    if (hash_ == ChannelHash::ipoly)
      channel = count_shift_ >= 0 ? channel ^ fold_(row) : (channel + fold_(row)) % count_;
    return {static_cast<std::int64_t>(channel), (row << unit_shift_) + (address & (unit_ - 1))};
  }

 private:
  std::uint64_t count_, unit_;
  int unit_shift_ = 0, count_shift_ = -1;  ///< count: -1 where it is not a power of two
  ChannelHash hash_;
  Fold fold_;
};

}  // namespace tilesim::engine::dram
