// Maps addresses to channels, banks and rows. A string lists the address fields, and hashes modify some of them.
//  The string "row bank bank_group pseudo_channel column offset" lists fields from the most to the least significant
// bit. A field may be split into pieces with widths ("column:3"); its last piece may omit the width. A hash changes one
// field, or all bank fields together, by bits of the row: xor XORs the row into the field (Zhang, Zhu and Zhang, "A
// permutation-based page interleaving scheme", MICRO 2000); ipoly takes (row, field) modulo an irreducible polynomial
// over GF(2) (Rau, "Pseudo-randomly interleaved memory", ISCA 1991). Both keep the mapping one-to-one.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tilesim/engine/dram/part.hpp"

namespace tilesim::engine::dram {

struct Hash {
  std::string field;  ///< pseudo_channel, rank, stack, bank_group or bank; or "all" of these levels
  bool ipoly = false;
};

/// Reduces a number to fewer bits by a linear function over GF(2), with one table lookup per byte.
class Fold {
 public:
  Fold() = default;
  /// Reduces to `bits` <= 12 bits. xor: XOR of all groups of `bits` bits of the number; ipoly: remainder of number <<
  /// `bits` modulo an irreducible polynomial of degree `bits`.
  Fold(int bits, bool ipoly);
  std::uint64_t operator()(std::uint64_t value) const {
    std::uint64_t folded = 0;
    for (std::size_t byte = 0; value != 0; value >>= 8, ++byte) folded ^= table_[byte][value & 255];
    return folded;
  }

 private:
  std::array<std::array<std::uint16_t, 256>, 8> table_{};
};

/// The hashes of a machine's setting `memory.bank_hash`: "none", or one kind for all bank levels together.
std::vector<Hash> bank_hashes(const std::string& kind);

/// Reads [{"field": "bank", "kind": "xor"}, ...].
std::vector<Hash> read_hashes(const Json& json);

class AddressMap {
 public:
  struct Location { std::int32_t bank = 0, row = 0; };

  /// Empty `order`: the part's default. Throws UserError if fields are unknown or do not cover the part.
  explicit AddressMap(const Part& part, const std::string& order = {}, const std::vector<Hash>& hashes = {});
  /// Bank and row of an address. Ignores bits above the row, so addresses above the capacity wrap around.
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
  /// Per burst of an aligned unit: a value whose XOR with the bank of the unit's first burst is the burst's bank,
  /// because address fields do not overlap. Empty if the bursts of a unit are in different rows.
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
  // A single table lookup replaces the pieces if the bank's bits and the row's bits are contiguous.
  bool together_ = false;
  int bank_shift_ = 0, row_shift_ = 0;
  std::uint64_t bank_mask_ = 0, row_mask_ = 0;
  std::array<std::uint8_t, bank_limit> bank_table_{};
};

/// Permutation of channels that spreads strided accesses over all channels. Each round over the channels rotates their
/// order, by one (skew) or by the round number reduced to a channel number (ipoly). One-to-one for any number of
/// channels.
enum class ChannelHash : std::uint8_t { none, skew, ipoly };
ChannelHash channel_hash_of(const std::string& name);  ///< throws UserError for an unknown name

/// Distributes addresses over any number of channels, in blocks of `interleave_bytes` consecutive bytes.
class ChannelMap {
 public:
  ChannelMap(std::int64_t channels, std::int64_t interleave_bytes, ChannelHash hash);
  struct Target {
    std::int64_t channel = 0;
    std::uint64_t address = 0;  ///< address within the channel
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
  int unit_shift_ = 0, count_shift_ = -1;  ///< count_shift_: -1 if the number of channels is not a power of two
  ChannelHash hash_;
  Fold fold_;
};

}  // namespace tilesim::engine::dram
