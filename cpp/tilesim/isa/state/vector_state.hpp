// Vector registers, vtype and vl.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tilesim::isa {

/// What a value of vtype says. `sew` and `lmul` are powers of two: 3 … 6 (8 to 64 bits) and −3 … 3.
struct VectorType {
  std::uint8_t sew = 3;
  std::int8_t lmul = 0;
  bool tail_agnostic = false, mask_agnostic = false;
};

struct VectorState {
  explicit VectorState(std::uint32_t bits) : vlen(bits), vlenb(bits / 8), bytes(32 * std::size_t{bits} / 8 + 64) {}

  std::uint32_t vlen, vlenb;        ///< of one register, in bits and in bytes
  std::vector<std::uint8_t> bytes;  ///< the 32 registers one after the other, so groups are contiguous; 64 of padding
  std::uint64_t vl = 0, vstart = 0;
  std::uint64_t vtype = std::uint64_t{1} << 63;  ///< as the CSR reads; bit 63 is vill
  VectorType type;                               ///< of vtype, unless vill
  std::uint64_t vlmax = 0;
  /// Distinguishes legal values of vtype; `slow` where an instruction must look at more: vill, vstart, ones.
  static constexpr std::uint32_t slow = 0x10000;
  std::uint32_t key = slow;
  std::uint8_t vxrm = 0, vxsat = 0;
  bool ones = false;  ///< agnostic elements are written with ones (a test mode); else they stay

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

/// VLMAX of a type: VLEN × LMUL / SEW; 0 where the type is not supported (ELEN 64: SEW ≤ 64 × LMUL for fractions).
std::uint64_t vlmax_of(const VectorState& v, VectorType type);

/// What vsetvl* does: takes `value` as vtype and min(avl, VLMAX) as vl; vill where the value is reserved.
void set_vtype(VectorState& v, std::uint64_t value, std::uint64_t avl);
void set_vstart(VectorState& v, std::uint64_t value);  ///< never write the field: `key` depends on it
void set_ones(VectorState& v, bool ones);

}  // namespace tilesim::isa
