// Vector registers, vtype and vl.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tilesim::isa {

/// A decoded vtype. `sew` and `lmul` are log2 values: 3 … 6 (8 to 64 bits) and −3 … 3.
struct VectorType {
  std::uint8_t sew = 3;
  std::int8_t lmul = 0;
  bool tail_agnostic = false, mask_agnostic = false;
};

struct VectorState {
  explicit VectorState(std::uint32_t bits) : vlen(bits), vlenb(bits / 8), bytes(32 * std::size_t{bits} / 8 + 64) {}

  std::uint32_t vlen, vlenb;        ///< length of a register, in bits and in bytes
  std::vector<std::uint8_t> bytes;  ///< the 32 registers in order, so that groups are contiguous; 64 of padding
  std::uint64_t vl = 0, vstart = 0;
  std::uint64_t vtype = std::uint64_t{1} << 63;  ///< value of the CSR; bit 63 is vill
  VectorType type;                               ///< decoded vtype, unless vill
  std::uint64_t vlmax = 0;
  /// Distinguishes legal values of vtype; `slow` if instructions must check more: vill, vstart, ones.
  static constexpr std::uint32_t slow = 0x10000;
  std::uint32_t key = slow;
  std::uint8_t vxrm = 0, vxsat = 0;
  bool ones = false;  ///< a test mode: agnostic elements are set to ones; otherwise they keep their values

  template <class T>
  T* at(unsigned reg) {
    return reinterpret_cast<T*>(bytes.data() + std::size_t{reg} * vlenb);
  }
  template <class T>
  const T* at(unsigned reg) const {
    return reinterpret_cast<const T*>(bytes.data() + std::size_t{reg} * vlenb);
  }
  /// Element i of a mask register.
  bool bit(unsigned reg, std::uint64_t i) const { return at<std::uint8_t>(reg)[i >> 3] >> (i & 7) & 1; }
  void set_bit(unsigned reg, std::uint64_t i, bool value) {
    std::uint8_t& byte = at<std::uint8_t>(reg)[i >> 3];
    byte = static_cast<std::uint8_t>((byte & ~(1U << (i & 7))) | unsigned{value} << (i & 7));
  }
};

/// VLMAX of a type: VLEN × LMUL / SEW; 0 if the type is unsupported (ELEN 64: SEW ≤ 64 × LMUL for fractions).
std::uint64_t vlmax_of(const VectorState& v, VectorType type);

/// The effect of vsetvl*: `value` becomes vtype, min(avl, VLMAX) becomes vl; vill for a reserved value.
void set_vtype(VectorState& v, std::uint64_t value, std::uint64_t avl);
void set_vstart(VectorState& v, std::uint64_t value);  ///< sets vstart and updates `key`
void set_ones(VectorState& v, bool ones);

}  // namespace tilesim::isa
