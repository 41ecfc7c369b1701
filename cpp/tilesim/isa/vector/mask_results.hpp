// Loops that write one bit for each element.
#pragma once

#include "tilesim/isa/vector/elements.hpp"

namespace tilesim::isa {

/// 64 bits of a mask register from bit i on; i is a multiple of 64.
inline u64 mask_word(const Hart& h, unsigned reg, u64 i) {
  u64 word = 0;
  std::memcpy(&word, h.v.at<u8>(reg) + (i >> 3), 8);
  return word;
}

/// Ones for the elements below vl in the word that starts at element i.
inline u64 below(u64 vl, u64 i) { return vl - i >= 64 ? ~u64{0} : (u64{1} << (vl - i)) - 1; }

/// Packs the lowest bit of byte k to bit k.
inline u64 packed(const u8 (&bytes)[64]) {
  u64 bits = 0;
  for (unsigned k = 0; k < 8; ++k) {
    u64 eight = 0;
    std::memcpy(&eight, bytes + 8 * k, 8);
    bits |= ((eight & 0x0101010101010101U) * 0x0102040810204080U >> 56) << (8 * k);
  }
  return bits;
}

/// Sets bit i of vd to the lowest bit of `test(i)` for active elements below vl. Returns whether bit 1 of any active
/// element's test was set. Works in blocks: vd may be the first register of a source, or v0.
template <class Test>
bool write_mask(Hart& h, const Op& o, bool masked, Test test) {
  const u64 vl = h.v.vl;
  u64 second = 0;
  for (u64 i = 0; i < vl; i += 64) {
    alignas(64) u8 tests[64] = {}, seconds[64] = {};
    const u64 count = std::min<u64>(64, vl - i);
    for (u64 k = 0; k < count; ++k) tests[k] = static_cast<u8>(test(i + k));
    const u64 active = below(vl, i) & (masked ? mask_word(h, 0, i) : ~u64{0});
    for (u64 k = 0; k < 64; ++k) seconds[k] = tests[k] >> 1;
    second |= packed(seconds) & active;
    const u64 bits = (mask_word(h, o.rd, i) & ~active) | (packed(tests) & active);
    std::memcpy(h.v.at<u8>(o.rd) + (i >> 3), &bits, 8);
  }
  return second != 0;
}

}  // namespace tilesim::isa
