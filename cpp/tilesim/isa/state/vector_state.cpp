#include "tilesim/isa/state/vector_state.hpp"

#include <algorithm>

namespace tilesim::isa {

namespace {
constexpr std::uint64_t vill = std::uint64_t{1} << 63;

void take_key(VectorState& v) {
  v.key = (v.vtype & vill) != 0 ? VectorState::slow : static_cast<std::uint32_t>(v.vtype & 0xFF) + 1;
  if (v.vstart != 0 || v.ones) v.key |= VectorState::slow;
}

}  // namespace

std::uint64_t vlmax_of(const VectorState& v, VectorType type) {
  // ELEN is 64: a fraction of a register holds elements of up to 64 × LMUL bits
  if (type.sew > 6 || (type.lmul < 0 && type.sew > 6 + type.lmul)) return 0;
  const int shift = type.lmul - type.sew;
  return std::uint64_t{v.vlen} >> -shift;
}

void set_vtype(VectorState& v, std::uint64_t value, std::uint64_t avl) {
  const unsigned code = value & 7;
  VectorType type;
  type.sew = static_cast<std::uint8_t>(3 + (value >> 3 & 7));
  type.lmul = static_cast<std::int8_t>(code < 4 ? static_cast<int>(code) : static_cast<int>(code) - 8);
  type.tail_agnostic = (value >> 6 & 1) != 0;
  type.mask_agnostic = (value >> 7 & 1) != 0;
  v.vlmax = (value >> 8) != 0 || code == 4 ? 0 : vlmax_of(v, type);
  v.vstart = 0;
  if (v.vlmax == 0) {
    v.vtype = vill, v.vl = 0;
  } else {
    v.vtype = value, v.type = type, v.vl = std::min(avl, v.vlmax);
  }
  take_key(v);
}

void set_vstart(VectorState& v, std::uint64_t value) {
  v.vstart = value & (v.vlen - 1);
  take_key(v);
}

void set_ones(VectorState& v, bool ones) {
  v.ones = ones;
  take_key(v);
}

}  // namespace tilesim::isa
