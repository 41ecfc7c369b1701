// Conversions between element types. Chunk by chunk, every source type is decoded without loss to one of four carrier
// types (f32, f64, i64, u64); the target type is encoded from the carrier and rounds once. Common pairs have a direct
// loop.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <type_traits>

#include "tilesim/base/dtype.hpp"
#include "tilesim/base/float_format.hpp"

namespace tilesim {

namespace {

using D = DType;

constexpr std::int64_t chunk = 512;

enum class Carrier : std::uint8_t { f32, f64, i64, u64 };

struct Mode {
  Rounding rounding;
  Overflow overflow;
};

// ---- decoding ------------------------------------------------------------------------------------------------------

using ByteTable = std::array<float, 256>;

float decoded(DType dtype, std::uint32_t code) {
  const FloatFormat* format = narrow_format(dtype);
  return format ? decode_float(*format, code & (2 * format->sign - 1)) : decode_e8m0(static_cast<std::uint8_t>(code));
}

/// Values of all codes of a float type of at most a byte.
const ByteTable& byte_table(DType dtype) {
  static const std::array<ByteTable, dtype_count> tables = [] {
    std::array<ByteTable, dtype_count> all{};
    for (int i = 0; i < dtype_count; ++i)
      for (std::uint32_t code = 0; code < 256 && is_float(static_cast<D>(i)) && bits(static_cast<D>(i)) <= 8; ++code)
        all[static_cast<std::size_t>(i)][code] = decoded(static_cast<D>(i), code);
    return all;
  }();
  return tables[static_cast<std::size_t>(dtype)];
}

void look_up(const ByteTable& table, const void* from, float* to, std::int64_t count) {
  const auto* codes = static_cast<const std::uint8_t*>(from);
  for (std::int64_t i = 0; i < count; ++i) to[i] = table[codes[i]];
}

template <class T>
void real_parts(const void* from, T* to, std::int64_t count) {
  const auto* parts = static_cast<const T*>(from);
  for (std::int64_t i = 0; i < count; ++i) to[i] = parts[2 * i];
}

void decode_to_float(const void* from, DType dtype, float* to, std::int64_t count) {
  switch (dtype) {
    case D::f16: {
      const auto* codes = static_cast<const std::uint16_t*>(from);
      for (std::int64_t i = 0; i < count; ++i) to[i] = f16_to_f32(codes[i]);
      return;
    }
    case D::bf16: {
      const auto* codes = static_cast<const std::uint16_t*>(from);
      for (std::int64_t i = 0; i < count; ++i) to[i] = bf16_to_f32(codes[i]);
      return;
    }
    case D::c64:
      return real_parts<float>(from, to, count);
    default:
      return look_up(byte_table(dtype), from, to, count);
  }
}

template <class From, class To>
void cast(const void* from, void* to, std::int64_t count) {
  const auto* source = static_cast<const From*>(from);
  auto* target = static_cast<To*>(to);
  for (std::int64_t i = 0; i < count; ++i) target[i] = static_cast<To>(source[i]);
}

/// Sign-extends a code in the low bits of its byte.
std::int8_t sign_extended(std::uint8_t code, int width) {
  const int sign = 1 << (width - 1);
  return static_cast<std::int8_t>(((code & (2 * sign - 1)) ^ sign) - sign);
}

template <class To>
void decode_integers(const void* from, DType dtype, To* to, std::int64_t count) {
  const auto* bytes = static_cast<const std::uint8_t*>(from);
  switch (dtype) {
    case D::i64:
      return cast<std::int64_t, To>(from, to, count);
    case D::i32:
      return cast<std::int32_t, To>(from, to, count);
    case D::i16:
      return cast<std::int16_t, To>(from, to, count);
    case D::i8:
      return cast<std::int8_t, To>(from, to, count);
    case D::u64:
      return cast<std::uint64_t, To>(from, to, count);
    case D::u32:
      return cast<std::uint32_t, To>(from, to, count);
    case D::u16:
      return cast<std::uint16_t, To>(from, to, count);
    case D::u8:
      return cast<std::uint8_t, To>(from, to, count);
    case D::i4:
    case D::i2:
      for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<To>(sign_extended(bytes[i], value_bits(dtype)));
      return;
    case D::u4:
    case D::u2:
      for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<To>(bytes[i] & ((1 << value_bits(dtype)) - 1));
      return;
    default:
      for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<To>(bytes[i] != 0);
      return;
  }
}

bool carried_as_integer(DType dtype) { return is_integer(dtype) || dtype == D::boolean; }

/// A carrier that represents every value of `from`; for float targets, a float carrier if possible, because it is
/// faster.
Carrier carrier_of(DType from, DType to) {
  if (from == D::f64 || from == D::c128) return Carrier::f64;
  if (!carried_as_integer(from)) return Carrier::f32;
  if (from == D::u64) return Carrier::u64;
  if (from == D::i64 || carried_as_integer(to)) return Carrier::i64;
  return bits(from) == 32 ? Carrier::f64 : Carrier::f32;
}

// ---- encoding ------------------------------------------------------------------------------------------------------

/// The leading 53 bits of an integer as a double. Dropped bits are lost (rounding toward zero). With `sticky`, they set
/// the last kept bit, so that a further rounding to at most 51 bits gives the same as from the exact value (rounding to
/// odd).
double leading_bits(std::uint64_t magnitude, bool negative, bool sticky) {
  const int drop = std::max(0, 64 - std::countl_zero(magnitude) - 53);
  std::uint64_t kept = magnitude >> drop;
  if (sticky && (kept << drop) != magnitude) kept |= 1;
  const double value = std::ldexp(static_cast<double>(kept), drop);
  return negative ? -value : value;
}

double leading_bits(std::uint64_t value, bool sticky) { return leading_bits(value, false, sticky); }
double leading_bits(std::int64_t value, bool sticky) {
  const auto raw = static_cast<std::uint64_t>(value);
  return leading_bits(value < 0 ? 0 - raw : raw, value < 0, sticky);
}
double leading_bits(float value, bool) { return value; }
double leading_bits(double value, bool) { return value; }

template <class From>
void encode_f64(const From* from, double* to, std::int64_t count, Mode mode) {
  if (mode.rounding == Rounding::nearest_even || std::is_floating_point_v<From>)
    return cast<From, double>(from, to, count);
  for (std::int64_t i = 0; i < count; ++i) to[i] = leading_bits(from[i], false);
}

template <class From>
void encode_f32(const From* from, float* to, std::int64_t count, Mode mode) {
  const bool widening = std::is_same_v<From, float>;
  const bool plain = mode.rounding == Rounding::nearest_even && mode.overflow == Overflow::ieee;
  if (widening || plain) return cast<From, float>(from, to, count);
  for (std::int64_t i = 0; i < count; ++i)
    to[i] = std::bit_cast<float>(encode_float(format_f32, leading_bits(from[i], true), mode.rounding, mode.overflow));
}

template <class From, class Code>
void encode_narrow(const FloatFormat& format, const From* from, Code* to, std::int64_t count, Mode mode) {
  if constexpr (std::is_same_v<From, float> && std::is_same_v<Code, std::uint16_t>) {
    if (mode.rounding == Rounding::nearest_even && mode.overflow == Overflow::ieee) {
      const bool half = format.mantissa_bits == format_f16.mantissa_bits;
      for (std::int64_t i = 0; i < count; ++i) to[i] = half ? f32_to_f16(from[i]) : f32_to_bf16(from[i]);
      return;
    }
  }
  for (std::int64_t i = 0; i < count; ++i)
    to[i] = static_cast<Code>(encode_float(format, leading_bits(from[i], true), mode.rounding, mode.overflow));
}

template <class From>
void encode_powers(const From* from, std::uint8_t* to, std::int64_t count, Mode mode) {
  for (std::int64_t i = 0; i < count; ++i)
    to[i] = encode_e8m0(leading_bits(from[i], true), mode.rounding, mode.overflow);
}

/// Range of an integer type of `width` bits; i64 and u64 represent every bound.
struct IntegerRange {
  bool is_signed;
  int width;
  std::int64_t low() const { return is_signed ? static_cast<std::int64_t>(~std::uint64_t{0} << (width - 1)) : 0; }
  std::uint64_t high() const { return ~std::uint64_t{0} >> (64 - width + (is_signed ? 1 : 0)); }
};

/// A float's integer part modulo 2^64, or clamped to `range`. NaN gives 0; without clamping, an infinity also gives 0.
std::uint64_t to_integer(double value, const IntegerRange& range, Overflow overflow) {
  constexpr double two63 = 0x1p63;
  if (overflow == Overflow::ieee) {
    if (std::abs(value) < two63) return static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
    if (!std::isfinite(value)) return 0;
    const double rest = std::fmod(std::abs(value), 0x1p64);
    const auto magnitude = static_cast<std::uint64_t>(rest);
    return value < 0 ? 0 - magnitude : magnitude;
  }
  if (std::isnan(value)) return 0;
  const double whole = std::trunc(value);
  if (whole <= static_cast<double>(range.low())) return static_cast<std::uint64_t>(range.low());
  const double beyond = std::ldexp(1.0, range.width - (range.is_signed ? 1 : 0));
  if (whole >= beyond) return range.high();
  return whole < 0 ? static_cast<std::uint64_t>(static_cast<std::int64_t>(whole)) : static_cast<std::uint64_t>(whole);
}
std::uint64_t to_integer(float value, const IntegerRange& range, Overflow overflow) {
  return to_integer(static_cast<double>(value), range, overflow);
}
std::uint64_t to_integer(std::int64_t value, const IntegerRange& range, Overflow overflow) {
  if (overflow == Overflow::saturate) {
    if (value < range.low()) return static_cast<std::uint64_t>(range.low());
    if (value > 0 && static_cast<std::uint64_t>(value) > range.high()) return range.high();
  }
  return static_cast<std::uint64_t>(value);
}
std::uint64_t to_integer(std::uint64_t value, const IntegerRange& range, Overflow overflow) {
  return overflow == Overflow::saturate ? std::min(value, range.high()) : value;
}

template <class From, class To>
void encode_integers(const From* from, To* to, std::int64_t count, DType dtype, Mode mode) {
  if (std::is_integral_v<From> && mode.overflow == Overflow::ieee && value_bits(dtype) >= 8)
    return cast<From, To>(from, to, count);
  const IntegerRange range{dtype_class(dtype) == DTypeClass::signed_integer, value_bits(dtype)};
  const std::uint64_t mask = ~std::uint64_t{0} >> (64 - range.width);
  for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<To>(to_integer(from[i], range, mode.overflow) & mask);
}

/// Encodes floats as f64, f32 or a narrower type.
template <class From>
void encode_floats(const From* from, void* to, DType dtype, std::int64_t count, Mode mode) {
  switch (dtype) {
    case D::f64:
      return encode_f64(from, static_cast<double*>(to), count, mode);
    case D::f32:
      return encode_f32(from, static_cast<float*>(to), count, mode);
    case D::f16:
      return encode_narrow(format_f16, from, static_cast<std::uint16_t*>(to), count, mode);
    case D::bf16:
      return encode_narrow(format_bf16, from, static_cast<std::uint16_t*>(to), count, mode);
    default:
      break;
  }
  auto* bytes = static_cast<std::uint8_t*>(to);
  if (const FloatFormat* format = narrow_format(dtype)) return encode_narrow(*format, from, bytes, count, mode);
  encode_powers(from, bytes, count, mode);
}

/// Encodes complex numbers: an imaginary zero follows each real part.
template <class From>
void encode_complex(const From* from, void* to, DType dtype, std::int64_t count, Mode mode) {
  alignas(64) std::array<std::byte, chunk * 8> real;
  const auto size = static_cast<std::size_t>(host_bytes(part_of(dtype)));
  encode_floats(from, real.data(), part_of(dtype), count, mode);
  std::memset(to, 0, static_cast<std::size_t>(count) * 2 * size);
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
    std::memcpy(static_cast<std::byte*>(to) + 2 * i * size, real.data() + i * size, size);
}

template <class From>
void encode(const From* from, void* to, DType dtype, std::int64_t count, Mode mode) {
  switch (dtype) {
    case D::i64:
      return encode_integers(from, static_cast<std::int64_t*>(to), count, dtype, mode);
    case D::i32:
      return encode_integers(from, static_cast<std::int32_t*>(to), count, dtype, mode);
    case D::i16:
      return encode_integers(from, static_cast<std::int16_t*>(to), count, dtype, mode);
    case D::i8:
      return encode_integers(from, static_cast<std::int8_t*>(to), count, dtype, mode);
    case D::u64:
      return encode_integers(from, static_cast<std::uint64_t*>(to), count, dtype, mode);
    case D::u32:
      return encode_integers(from, static_cast<std::uint32_t*>(to), count, dtype, mode);
    case D::u16:
      return encode_integers(from, static_cast<std::uint16_t*>(to), count, dtype, mode);
    case D::u8:
    case D::i4:
    case D::u4:
    case D::i2:
    case D::u2:
      return encode_integers(from, static_cast<std::uint8_t*>(to), count, dtype, mode);
    case D::boolean:
      for (std::int64_t i = 0; i < count; ++i) static_cast<std::uint8_t*>(to)[i] = from[i] != From{0} ? 1 : 0;
      return;
    default:
      return is_complex(dtype) ? encode_complex(from, to, dtype, count, mode)
                               : encode_floats(from, to, dtype, count, mode);
  }
}

/// Converts one chunk. Sources of type f32, f64, i64 and u64 are their own carrier and are not copied.
void convert_chunk(const void* from, DType from_dtype, void* to, DType to_dtype, std::int64_t count, Mode mode) {
  alignas(64) std::array<std::byte, chunk * 8> buffer;
  void* carried = buffer.data();
  switch (carrier_of(from_dtype, to_dtype)) {
    case Carrier::f32: {
      auto* values = static_cast<float*>(carried);
      if (from_dtype == D::f32) return encode(static_cast<const float*>(from), to, to_dtype, count, mode);
      if (carried_as_integer(from_dtype))
        decode_integers(from, from_dtype, values, count);
      else
        decode_to_float(from, from_dtype, values, count);
      return encode(values, to, to_dtype, count, mode);
    }
    case Carrier::f64: {
      auto* values = static_cast<double*>(carried);
      if (from_dtype == D::f64) return encode(static_cast<const double*>(from), to, to_dtype, count, mode);
      if (from_dtype == D::c128)
        real_parts(from, values, count);
      else
        decode_integers(from, from_dtype, values, count);
      return encode(values, to, to_dtype, count, mode);
    }
    case Carrier::i64: {
      auto* values = static_cast<std::int64_t*>(carried);
      if (from_dtype == D::i64) return encode(static_cast<const std::int64_t*>(from), to, to_dtype, count, mode);
      decode_integers(from, from_dtype, values, count);
      return encode(values, to, to_dtype, count, mode);
    }
    case Carrier::u64:
      return encode(static_cast<const std::uint64_t*>(from), to, to_dtype, count, mode);
  }
}

/// A complex number is true if one of its parts is not zero.
void complex_to_bool(const void* from, DType part, std::uint8_t* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    std::array<std::uint8_t, 2> found{};
    convert_chunk(static_cast<const std::byte*>(from) + 2 * i * host_bytes(part), part, found.data(), D::boolean, 2,
                  {});
    to[i] = found[0] | found[1];
  }
}

}  // namespace

void convert(const void* from, DType from_dtype, void* to, DType to_dtype, std::int64_t count, Rounding rounding,
             Overflow overflow) {
  if (count <= 0) return;
  if (from_dtype == to_dtype) {
    std::memcpy(to, from, static_cast<std::size_t>(count * host_bytes(to_dtype)));
    return;
  }
  if (is_complex(from_dtype) && is_complex(to_dtype))
    return convert(from, part_of(from_dtype), to, part_of(to_dtype), 2 * count, rounding, overflow);
  if (is_complex(from_dtype) && to_dtype == D::boolean)
    return complex_to_bool(from, part_of(from_dtype), static_cast<std::uint8_t*>(to), count);
  const auto* source = static_cast<const std::byte*>(from);
  auto* target = static_cast<std::byte*>(to);
  for (std::int64_t done = 0; done < count; done += chunk)
    convert_chunk(source + done * host_bytes(from_dtype), from_dtype, target + done * host_bytes(to_dtype), to_dtype,
                  std::min(chunk, count - done), {rounding, overflow});
}

void round_through(float* values, std::int64_t count, DType through) {
  if (through == D::f32 || through == D::f64) return;
  std::array<std::uint16_t, chunk> codes;  // wide enough for all narrower float types
  for (std::int64_t done = 0; done < count; done += chunk) {
    const std::int64_t part = std::min(chunk, count - done);
    convert_chunk(values + done, D::f32, codes.data(), through, part, {Rounding::nearest_even, Overflow::ieee});
    convert_chunk(codes.data(), through, values + done, D::f32, part, {Rounding::nearest_even, Overflow::ieee});
  }
}

void tf32_round(float* values, std::int64_t count) {
  // tf32 keeps f32's exponent and 10 of its 23 mantissa bits.
  for (std::int64_t i = 0; i < count; ++i) {
    const auto raw = std::bit_cast<std::uint32_t>(values[i]);
    const std::uint32_t rounded = (raw + 0xFFF + (raw >> 13 & 1)) & 0xFFFF'E000;
    values[i] = std::bit_cast<float>((raw & 0x7F80'0000) == 0x7F80'0000 ? raw : rounded);
  }
}

}  // namespace tilesim
