// Estimates with seven bits: reciprocals and reciprocals of square roots (RISC-V "V" 1.0, sections 13.9 and 13.10).
#include "tilesim/isa/vector/float_elements.hpp"

namespace tilesim::isa {

namespace vector_estimate {

/// 2^8 / (1 + (i + ½) / 128), rounded to nearest, without the leading bit.
constexpr std::array<u8, 128> reciprocals = [] {
  std::array<u8, 128> table{};
  for (u32 i = 0; i < 128; ++i) {
    const u32 divisor = 2 * (128 + i) + 1;  // in units of 2^-8
    table[i] = static_cast<u8>(((1U << 17) + divisor) / (2 * divisor) - 128);
  }
  return table;
}();

/// 2^8 / sqrt(v), rounded to nearest, without the leading bit: v = 2 (1 + (i + ½) / 64) in the first half, 1 + (i + ½)
/// / 64 in the second.
constexpr std::array<u8, 128> roots = [] {
  std::array<u8, 128> table{};
  for (u64 i = 0; i < 128; ++i) {
    const u64 v = (i < 64 ? 2 : 1) * (128 + 2 * (i & 63) + 1);  // in units of 1/128
    u64 r = 128;
    while ((2 * r + 1) * (2 * r + 1) * v <= 4 * 65536 * u64{128}) ++r;  // r + ½ ≤ 256 / sqrt(v)
    table[i] = static_cast<u8>(r - 128);
  }
  return table;
}();

/// A finite nonzero number: exponent with unbounded range, fraction without the leading bit.
struct FloatParts {
  int exponent;
  u64 fraction;
};
template <class F>
FloatParts parts(u64 bits) {
  constexpr u64 ones = (u64{1} << F::format.fraction) - 1;
  FloatParts p{static_cast<int>(bits >> F::format.fraction & ((u64{1} << F::format.exponent) - 1)), bits & ones};
  if (p.exponent != 0) return p;
  const int shift = std::countl_zero(p.fraction) - (63 - F::format.fraction);
  return {1 - shift, p.fraction << shift & ones};
}

template <class F>
u64 root(Hart& h, Round, u64 bits) {
  constexpr auto format = F::format;
  const bool negative = (bits & format.sign()) != 0;
  const u64 magnitude = bits & (format.sign() - 1);
  if (soft::is_nan(format, bits) || (negative && magnitude != 0)) {
    if (!soft::is_nan(format, bits) || soft::is_signalling(format, bits)) h.fflags |= invalid;
    return format.canonical();
  }
  if (magnitude == 0) {
    h.fflags |= divide_by_zero;
    return (bits & format.sign()) | format.infinity();
  }
  if (magnitude == format.infinity()) return 0;
  const FloatParts p = parts<F>(magnitude);
  const u64 index = static_cast<u64>(p.exponent & 1) << 6 | p.fraction >> (format.fraction - 6);
  const auto exponent = static_cast<u64>((3 * format.bias() - 1 - p.exponent) / 2);
  return exponent << format.fraction | u64{roots[index]} << (format.fraction - 7);
}

template <class F>
u64 reciprocal(Hart& h, Round mode, u64 bits) {
  constexpr auto format = F::format;
  const u64 sign_bit = bits & format.sign(), magnitude = bits & (format.sign() - 1);
  if (magnitude > format.infinity()) {
    if (soft::is_signalling(format, bits)) h.fflags |= invalid;
    return format.canonical();
  }
  if (magnitude == 0) {
    h.fflags |= divide_by_zero;
    return sign_bit | format.infinity();
  }
  if (magnitude == format.infinity()) return sign_bit;
  const FloatParts p = parts<F>(magnitude);
  const int exponent = 2 * format.bias() - 1 - p.exponent;
  if (p.exponent < -1) {  // overflow
    h.fflags |= overflow | inexact;
    const bool to_largest = mode == Round::zero || mode == (sign_bit != 0 ? Round::up : Round::down);
    return sign_bit | (to_largest ? format.infinity() - 1 : format.infinity());
  }
  const u64 fraction = u64{reciprocals[p.fraction >> (format.fraction - 7)]} << (format.fraction - 7);
  if (exponent > 0) return sign_bit | static_cast<u64>(exponent) << format.fraction | fraction;
  return sign_bit | (fraction | u64{1} << format.fraction) >> (1 - exponent);
}

template <class F, bool of_root>
void estimate(Hart& h, Round mode, void* to, const void* from, const void*, unsigned n) {
  using Bits = typename F::Bits;
  for (unsigned k = 0; k < n; ++k) {
    const u64 bits = static_cast<const Bits*>(from)[k];
    static_cast<Bits*>(to)[k] = static_cast<Bits>(of_root ? root<F>(h, mode, bits) : reciprocal<F>(h, mode, bits));
  }
}

template <bool of_root>
void declare(Declarations& d, const char* name, u32 code, const char* description) {
  constexpr auto by_width = by_formats([]<class F>() -> Execute {
    using B = typename F::Bits;
    return &float_instruction<B, B, B, &estimate<F, of_root>, Second::none>;
  });
  vector_line(d, name, "vd, vs2, vm", vector_code(0x13, opfvv) | field(19, 15, code), "float-estimate", by_width,
              rule(one_group, one_group), description);
}

}  // namespace vector_estimate

void declare_vector_estimate(Declarations& d) {
  d.extension = "V", d.unit = Unit::arithmetic, d.traits = sets_flags;
  vector_estimate::declare<true>(d, "vfrsqrt7.v", 4, "Reciprocals of square roots, to seven bits.");
  d.traits = sets_flags | reads_rounding;
  vector_estimate::declare<false>(d, "vfrec7.v", 5, "Reciprocals, to seven bits.");
  d.traits = 0;
}

}  // namespace tilesim::isa
