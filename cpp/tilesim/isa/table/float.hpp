// Float formats of registers: boxing, rounding modes, and the types on which the host processor computes directly.
#pragma once

#include <bit>
#include <cmath>

#include "tilesim/isa/state/soft_float.hpp"
#include "tilesim/isa/table/means.hpp"

namespace tilesim::isa {

struct Half {
  using Bits = u16;
  using Value = void;
  static constexpr bool host = false;  ///< the host has no arithmetic for it
  static constexpr soft::Format format = soft::f16;
  static constexpr u32 code = 2;
  static constexpr const char* suffix = "h";
};

struct Single {
  using Bits = u32;
  using Value = float;
  static constexpr bool host = true;
  static constexpr soft::Format format = soft::f32;
  static constexpr u32 code = 0;
  static constexpr const char* suffix = "s";
};

struct Double {
  using Bits = u64;
  using Value = double;
  static constexpr bool host = true;
  static constexpr soft::Format format = soft::f64;
  static constexpr u32 code = 1;
  static constexpr const char* suffix = "d";
};

/// The float in a register; a narrower value without NaN-boxing reads as the canonical NaN.
template <class F>
typename F::Bits unbox(u64 value) {
  if constexpr (sizeof(typename F::Bits) == 8) return value;
  constexpr u64 ones = ~u64{0} << (F::format.bits() & 63);
  return static_cast<typename F::Bits>((value & ones) == ones ? value : F::format.canonical());
}

template <class F>
constexpr u64 box(u64 bits) {
  if constexpr (sizeof(typename F::Bits) == 8)
    return bits;
  else
    return bits | ~u64{0} << (F::format.bits() & 63);
}

/// The rounding mode of an instruction; reserved modes trap.
inline Round rounding(const Hart& h, const Op& o) {
  const Round mode = o.rm == 7 ? h.frm : static_cast<Round>(o.rm);
  if (mode > Round::nearest_away) [[unlikely]]
    illegal(o, "a reserved rounding mode");
  return mode;
}

/// A result of the processor, with NaNs made canonical.
template <class F>
typename F::Bits canonical(typename F::Value value) {
  if (value != value) return static_cast<typename F::Bits>(F::format.canonical());
  return std::bit_cast<typename F::Bits>(value);
}

}  // namespace tilesim::isa
