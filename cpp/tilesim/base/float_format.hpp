// Bit layouts, decoding and correctly rounded encoding of the float formats of up to 32 bits. Private to base: other
// modules call convert() of dtype.hpp.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "tilesim/base/dtype.hpp"

namespace tilesim {

/// Sign, exponent and mantissa as in IEEE 754, and the special codes of the format. Codes exclude the sign bit.
struct FloatFormat {
  int mantissa_bits;
  int lowest_exponent;         ///< exponent of the smallest normal number: 1 - bias
  std::uint32_t largest;       ///< code of the largest finite number
  std::uint32_t infinity;      ///< code of infinity; 0: the format has no infinity
  std::uint32_t not_a_number;  ///< code of NaN; 0: the format has no NaN
  std::uint32_t sign;          ///< the sign bit
  bool negative_zero;          ///< false for the `uz` formats, where the code of -0 is the only NaN
};

inline constexpr FloatFormat format_f32{23, -126, 0x7F7F'FFFF, 0x7F80'0000, 0x7FC0'0000, 0x8000'0000, true};
inline constexpr FloatFormat format_f16{10, -14, 0x7BFF, 0x7C00, 0x7E00, 0x8000, true};
inline constexpr FloatFormat format_bf16{7, -126, 0x7F7F, 0x7F80, 0x7FC0, 0x8000, true};

/// The formats of at most a byte, except f8e8m0fnu, which has no sign and no mantissa.
struct NarrowFormat {
  DType dtype;
  FloatFormat format;
};
inline constexpr std::array<NarrowFormat, 10> narrow_formats{{
    // OCP 8-bit floating point specification (OFP8), revision 1.0, table 1.
    {DType::f8e4m3fn, {3, -6, 0x7E, 0, 0x7F, 0x80, true}},
    {DType::f8e5m2, {2, -14, 0x7B, 0x7C, 0x7E, 0x80, true}},
    // Noune et al., "8-bit numerical formats for deep neural networks", arXiv 2206.02915.
    {DType::f8e4m3fnuz, {3, -7, 0x7F, 0, 0x80, 0x80, false}},
    {DType::f8e5m2fnuz, {2, -15, 0x7F, 0, 0x80, 0x80, false}},
    // Sun et al., "Hybrid 8-bit floating point training and inference for deep neural networks", NeurIPS 2019: bias 11.
    {DType::f8e4m3b11fnuz, {3, -10, 0x7F, 0, 0x80, 0x80, false}},
    // As IEEE 754 would define these sizes (StableHLO specification, Types).
    {DType::f8e4m3ieee, {3, -6, 0x77, 0x78, 0x7C, 0x80, true}},
    {DType::f8e3m4, {4, -2, 0x6F, 0x70, 0x78, 0x80, true}},
    // OCP Microscaling formats (MX), version 1.0, sections 5.3.2 and 5.3.3: no infinity and no NaN.
    {DType::f6e2m3fn, {3, 0, 0x1F, 0, 0, 0x20, true}},
    {DType::f6e3m2fn, {2, -2, 0x1F, 0, 0, 0x20, true}},
    {DType::f4e2m1fn, {1, 0, 0x7, 0, 0, 0x8, true}},
}};
/// Null if the dtype is not in the table.
constexpr const FloatFormat* narrow_format(DType dtype) {
  for (const NarrowFormat& entry : narrow_formats)
    if (entry.dtype == dtype) return &entry.format;
  return nullptr;
}

namespace detail {

constexpr std::uint32_t special_code(const FloatFormat& format, std::uint32_t sign) {
  if (!format.negative_zero) return format.not_a_number;
  // As in ml_dtypes, NaN becomes a zero of the opposite sign in a format without NaN.
  if (format.not_a_number == 0) return sign ^ format.sign;
  return sign | format.not_a_number;
}

/// The code for a magnitude above the largest finite number. `infinite`: the value is infinity.
constexpr std::uint32_t overflow_code(const FloatFormat& format, std::uint32_t sign, bool infinite, Rounding rounding,
                                      Overflow overflow) {
  if (overflow == Overflow::saturate || (rounding == Rounding::toward_zero && !infinite)) return sign | format.largest;
  if (format.infinity != 0) return sign | format.infinity;
  if (format.not_a_number == 0) return sign | format.largest;
  return special_code(format, sign);
}

}  // namespace detail

/// The code of `value`, rounded once.
inline std::uint32_t encode_float(const FloatFormat& format, double value, Rounding rounding, Overflow overflow) {
  const auto raw = std::bit_cast<std::uint64_t>(value);
  const std::uint32_t sign = (raw >> 63) != 0 ? format.sign : 0;
  const int field = static_cast<int>(raw >> 52 & 0x7FF);
  std::uint64_t significand = raw & 0xF'FFFF'FFFF'FFFF;
  if (field == 0x7FF)
    return significand != 0 ? detail::special_code(format, sign)
                            : detail::overflow_code(format, sign, true, rounding, overflow);
  if (field != 0) significand |= std::uint64_t{1} << 52;
  const int exponent = std::max(field, 1) - 1023;  // exponent of bit 2^52 of the significand
  const int scale = std::max(exponent, format.lowest_exponent);
  // drop >= 52 - mantissa_bits > 0, because every format is narrower than f64
  const int drop = std::min(52 - format.mantissa_bits + (scale - exponent), 63);
  std::uint64_t kept = significand >> drop;
  if (rounding == Rounding::nearest_even) {
    const std::uint64_t half = std::uint64_t{1} << (drop - 1);
    const std::uint64_t rest = significand & (2 * half - 1);
    kept += rest > half || (rest == half && (kept & 1) != 0) ? 1 : 0;
  }
  // A carry out of the mantissa increments the exponent, which is the correct result.
  const std::uint64_t code =
      (static_cast<std::uint64_t>(scale - format.lowest_exponent) << format.mantissa_bits) + kept;
  if (code > format.largest) return detail::overflow_code(format, sign, false, rounding, overflow);
  if (code == 0 && !format.negative_zero) return 0;
  return sign | static_cast<std::uint32_t>(code);
}

/// The exact value of a code of up to 16 bits.
inline float decode_float(const FloatFormat& format, std::uint32_t code) {
  const bool negative = (code & format.sign) != 0;
  const std::uint32_t magnitude = code & (format.sign - 1);
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  if (!format.negative_zero && code == format.sign) return nan;
  float value = 0;
  if (magnitude > format.largest) {
    value = format.infinity != 0 && magnitude == format.infinity ? std::numeric_limits<float>::infinity() : nan;
  } else {
    const auto exponent = static_cast<int>(magnitude >> format.mantissa_bits);
    const std::uint32_t mantissa = magnitude & ((1U << format.mantissa_bits) - 1);
    const std::uint32_t significand = exponent == 0 ? mantissa : mantissa | (1U << format.mantissa_bits);
    value = std::ldexp(static_cast<float>(significand),
                       std::max(exponent, 1) - 1 + format.lowest_exponent - format.mantissa_bits);
  }
  return negative ? -value : value;
}

/// f8e8m0fnu is a power of two, 2^(code - 127), or NaN for 0xFF (OCP MX, section 5.4.1), without sign and zero. Zero
/// and negative numbers become NaN, small numbers the smallest power. Ties round up, as in ml_dtypes.
inline std::uint8_t encode_e8m0(double value, Rounding rounding, Overflow overflow) {
  if (!(value > 0)) return 0xFF;
  if (std::isinf(value)) return overflow == Overflow::saturate ? 0xFE : 0xFF;
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);  // in [0.5, 1)
  const int code = exponent - 1 + 127 + (rounding == Rounding::nearest_even && fraction >= 0.75 ? 1 : 0);
  if (code > 0xFE) return overflow == Overflow::saturate || rounding == Rounding::toward_zero ? 0xFE : 0xFF;
  return static_cast<std::uint8_t>(std::max(code, 0));
}

inline float decode_e8m0(std::uint8_t code) {
  return code == 0xFF ? std::numeric_limits<float>::quiet_NaN() : std::ldexp(1.0F, static_cast<int>(code) - 127);
}

// Conversions of the 16-bit formats from and to f32 have no branches, so that loops over them vectorize.

inline float bf16_to_f32(std::uint16_t code) { return std::bit_cast<float>(static_cast<std::uint32_t>(code) << 16); }

inline std::uint16_t f32_to_bf16(float value) {
  const auto raw = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (raw + 0x7FFF + (raw >> 16 & 1)) >> 16;
  const std::uint32_t nan = (raw >> 16 & 0x8000) | 0x7FC0;
  return static_cast<std::uint16_t>((raw & 0x7FFF'FFFF) > 0x7F80'0000 ? nan : rounded);
}

/// Returns `a` if the condition is true, else `b`, without a branch.
inline std::uint32_t pick(bool condition, std::uint32_t a, std::uint32_t b) {
  const std::uint32_t mask = 0U - static_cast<std::uint32_t>(condition);
  return (a & mask) | (b & ~mask);
}

inline float f16_to_f32(std::uint16_t code) {
  const std::uint32_t word = static_cast<std::uint32_t>(code) << 16;
  const std::uint32_t twice = word + word;
  const float normal = std::bit_cast<float>((twice >> 4) + (0xE0U << 23)) * 0x1p-112F;
  const float subnormal = std::bit_cast<float>((twice >> 17) | (126U << 23)) - 0.5F;
  const std::uint32_t magnitude =
      pick(twice < (1U << 27), std::bit_cast<std::uint32_t>(subnormal), std::bit_cast<std::uint32_t>(normal));
  return std::bit_cast<float>((word & 0x8000'0000) | magnitude);
}

/// Adds a power of two that depends on the exponent, so that the f32 adder rounds at the right bit. The same sum
/// handles subnormals and overflow (method of Maratyszcza's FP16 library).
inline std::uint16_t f32_to_f16(float value) {
  const auto word = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t twice = word + word;
  const float scaled = (std::bit_cast<float>(word & 0x7FFF'FFFF) * 0x1p+112F) * 0x1p-110F;
  const std::uint32_t exponent = pick((twice >> 24) < 0x71, 0x7100'0000, twice & 0xFF00'0000);
  const auto sum = std::bit_cast<std::uint32_t>(std::bit_cast<float>((exponent >> 1) + 0x0780'0000) + scaled);
  const std::uint32_t finite = (sum >> 13 & 0x7C00) + (sum & 0x0FFF);
  const std::uint32_t magnitude = pick(twice > 0xFF00'0000, 0x7E00, finite);
  return static_cast<std::uint16_t>((word >> 16 & 0x8000) | magnitude);
}

}  // namespace tilesim
