// Conversions between element types: decoded in chunks to f64 or i64 (both exact), rounded once into the target.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "tilesim/base/dtype.hpp"
#include "tilesim/base/error.hpp"

namespace tilesim {

namespace {

constexpr std::int64_t chunk = 512;

/// A float format narrower than f32. Codes count up with magnitude; `largest` is the code of the largest finite value.
struct Format {
  int mantissa, bias;
  std::uint32_t largest;
  std::uint32_t sign;      ///< sign bit; 0: no negative values
  std::uint32_t overflow;  ///< code of what lies beyond the largest (infinity or NaN); `largest` where the format saturates
  std::uint32_t nan;
  bool negative_zero;
};

const Format& format(DType dtype) {
  static constexpr Format f16{10, 15, 0x7BFF, 0x8000, 0x7C00, 0x7E00, true};
  static constexpr Format bf16{7, 127, 0x7F7F, 0x8000, 0x7F80, 0x7FC0, true};
  static constexpr Format e4m3fn{3, 7, 0x7E, 0x80, 0x7F, 0x7F, true};
  static constexpr Format e5m2{2, 15, 0x7B, 0x80, 0x7C, 0x7E, true};
  static constexpr Format e4m3fnuz{3, 8, 0x7F, 0x80, 0x80, 0x80, false};
  static constexpr Format e5m2fnuz{2, 16, 0x7F, 0x80, 0x80, 0x80, false};
  static constexpr Format e2m1fn{1, 1, 0x7, 0x8, 0x7, 0x8, true};
  switch (dtype) {
    case DType::f16: return f16;
    case DType::bf16: return bf16;
    case DType::f8e4m3fn: return e4m3fn;
    case DType::f8e5m2: return e5m2;
    case DType::f8e4m3fnuz: return e4m3fnuz;
    case DType::f8e5m2fnuz: return e5m2fnuz;
    case DType::f4e2m1fn: return e2m1fn;
    default: throw InternalError("not a narrow float format");
  }
}

double decode(const Format& f, std::uint32_t code) {
  const bool negative = (code & f.sign) != 0;
  const std::uint32_t magnitude = code & (f.sign - 1);
  if (!f.negative_zero && code == f.nan) return std::numeric_limits<double>::quiet_NaN();
  if (magnitude > f.largest) {
    const bool infinity = f.overflow != f.nan && magnitude == f.overflow;
    const double value = infinity ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
    return negative ? -value : value;
  }
  const int exponent = static_cast<int>(magnitude >> f.mantissa);
  const double fraction = static_cast<double>(magnitude & ((1U << f.mantissa) - 1));
  const double value = exponent == 0 ? std::ldexp(fraction, 1 - f.bias - f.mantissa)
                                     : std::ldexp(fraction + static_cast<double>(1U << f.mantissa), exponent - f.bias - f.mantissa);
  return negative ? -value : value;
}

std::uint32_t encode(const Format& f, double value, Rounding rounding, Overflow overflow) {
  const auto raw = std::bit_cast<std::uint64_t>(value);
  const std::uint32_t sign = (raw >> 63) ? f.sign : 0;
  if (std::isnan(value)) return f.negative_zero && f.nan != f.sign ? (f.nan | sign) : f.nan;
  const std::uint64_t magnitude = raw & ~(1ULL << 63);
  const bool saturates = overflow == Overflow::saturate || f.overflow == f.largest;
  const std::uint32_t beyond = saturates ? f.largest : f.overflow;
  const auto signed_code = [&](std::uint32_t code) { return code == f.nan && !f.negative_zero ? code : code | sign; };
  if (std::isinf(value)) return signed_code(beyond);
  if (magnitude == 0) return f.negative_zero ? sign : 0;
  int exponent = static_cast<int>(magnitude >> 52);
  std::uint64_t significand = magnitude & ((1ULL << 52) - 1);
  if (exponent == 0) return f.negative_zero ? sign : 0;  // a subnormal f64 is far below every narrow format
  exponent -= 1023;
  significand |= 1ULL << 52;
  const int lowest = 1 - f.bias;
  const int shift = 52 - f.mantissa + std::max(0, lowest - exponent);
  std::uint64_t rounded = 0;
  if (shift < 64) {
    rounded = significand >> shift;
    const std::uint64_t rest = significand & ((1ULL << shift) - 1), half = 1ULL << (shift - 1);
    if (rounding == Rounding::nearest_even && (rest > half || (rest == half && (rounded & 1)))) ++rounded;
  }
  const std::uint64_t code = (static_cast<std::uint64_t>(std::max(0, exponent - lowest)) << f.mantissa) + rounded;
  if (code > f.largest) return rounding == Rounding::toward_zero ? f.largest | sign : signed_code(beyond);
  if (code == 0 && !f.negative_zero) return 0;
  return static_cast<std::uint32_t>(code) | sign;
}

/// Powers of two only, no zero, no sign: code = exponent + 127, 255 is NaN.
double decode_e8m0(std::uint32_t code) { return code == 255 ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, static_cast<int>(code) - 127); }

std::uint32_t encode_e8m0(double value, Rounding rounding, Overflow overflow) {
  if (!(value > 0)) return 255;
  if (std::isinf(value)) return overflow == Overflow::saturate ? 254 : 255;
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);  // value = fraction * 2^exponent, fraction in [0.5, 1)
  int power = exponent - 1;
  // Nearest power by value; a tie (1.5) goes to the even code.
  if (rounding == Rounding::nearest_even && (fraction > 0.75 || (fraction == 0.75 && ((power + 127) & 1)))) ++power;
  const int code = power + 127;
  if (code > 254) return overflow == Overflow::saturate ? 254 : 255;
  return static_cast<std::uint32_t>(std::max(0, code));
}

const std::array<double, 256>& byte_table(DType dtype) {
  static const auto make = [](DType d) {
    std::array<double, 256> values{};
    for (std::uint32_t code = 0; code < 256; ++code)
      values[code] = d == DType::f8e8m0fnu ? decode_e8m0(code) : decode(format(d), d == DType::f4e2m1fn ? code & 15 : code);
    return values;
  };
  static const std::array<std::array<double, 256>, 6> tables{make(DType::f8e4m3fn), make(DType::f8e5m2), make(DType::f8e4m3fnuz),
                                                             make(DType::f8e5m2fnuz), make(DType::f8e8m0fnu), make(DType::f4e2m1fn)};
  return tables[static_cast<std::size_t>(dtype) - static_cast<std::size_t>(DType::f8e4m3fn)];
}

float bf16_to_f32(std::uint16_t code) { return std::bit_cast<float>(static_cast<std::uint32_t>(code) << 16); }

std::uint16_t f32_to_bf16(float value) {
  const auto raw = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (raw + 0x7FFF + ((raw >> 16) & 1)) >> 16;
  const auto nan = static_cast<std::uint16_t>((raw >> 16 & 0x8000) | 0x7FC0);
  return (raw & 0x7FFFFFFF) > 0x7F800000 ? nan : static_cast<std::uint16_t>(rounded);
}

template <class T, class To> void widen(const void* from, To* to, std::int64_t count) {
  const T* source = static_cast<const T*>(from);
  for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<To>(source[i]);
}

void decode_floats(const void* from, DType dtype, double* to, std::int64_t count) {
  switch (dtype) {
    case DType::f64: return widen<double>(from, to, count);
    case DType::f32: return widen<float>(from, to, count);
    case DType::c64:
      for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<const float*>(from)[2 * i];
      return;
    case DType::f16:
      for (std::int64_t i = 0; i < count; ++i) to[i] = decode(format(dtype), static_cast<const std::uint16_t*>(from)[i]);
      return;
    case DType::bf16:
      for (std::int64_t i = 0; i < count; ++i) to[i] = bf16_to_f32(static_cast<const std::uint16_t*>(from)[i]);
      return;
    default: break;
  }
  const auto& values = byte_table(dtype);
  for (std::int64_t i = 0; i < count; ++i) to[i] = values[static_cast<const std::uint8_t*>(from)[i]];
}

void decode_integers(const void* from, DType dtype, std::int64_t* to, std::int64_t count) {
  switch (dtype) {
    case DType::i64: return widen<std::int64_t>(from, to, count);
    case DType::i32: return widen<std::int32_t>(from, to, count);
    case DType::i16: return widen<std::int16_t>(from, to, count);
    case DType::i8: case DType::i4: return widen<std::int8_t>(from, to, count);
    case DType::u64: return widen<std::uint64_t>(from, to, count);
    case DType::u32: return widen<std::uint32_t>(from, to, count);
    case DType::u16: return widen<std::uint16_t>(from, to, count);
    default: return widen<std::uint8_t>(from, to, count);
  }
}

void encode_floats(const double* from, void* to, DType dtype, std::int64_t count, Rounding rounding, Overflow overflow) {
  if (dtype == DType::f64) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(double));
  } else if (dtype == DType::f32 || dtype == DType::c64) {
    const std::int64_t step = dtype == DType::c64 ? 2 : 1;
    auto* target = static_cast<float*>(to);
    for (std::int64_t i = 0; i < count; ++i) {
      float value = static_cast<float>(from[i]);
      if (rounding == Rounding::toward_zero && std::abs(static_cast<double>(value)) > std::abs(from[i])) value = std::nextafter(value, 0.0F);
      if (overflow == Overflow::saturate && std::isinf(value)) value = std::copysign(std::numeric_limits<float>::max(), value);
      target[i * step] = value;
      if (step == 2) target[i * step + 1] = 0;
    }
  } else if (dtype == DType::f8e8m0fnu) {
    for (std::int64_t i = 0; i < count; ++i) static_cast<std::uint8_t*>(to)[i] = static_cast<std::uint8_t>(encode_e8m0(from[i], rounding, overflow));
  } else if (bits(dtype) == 16) {
    const Format& f = format(dtype);
    for (std::int64_t i = 0; i < count; ++i) static_cast<std::uint16_t*>(to)[i] = static_cast<std::uint16_t>(encode(f, from[i], rounding, overflow));
  } else {
    const Format& f = format(dtype);
    for (std::int64_t i = 0; i < count; ++i) static_cast<std::uint8_t*>(to)[i] = static_cast<std::uint8_t>(encode(f, from[i], rounding, overflow));
  }
}

/// An f64 that rounds to every narrower float as the integer itself would: bits that f64 lacks are folded into its last one.
double sticky_double(std::int64_t value) {
  const std::uint64_t magnitude = value < 0 ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
  if (magnitude < (1ULL << 53)) return static_cast<double>(value);
  const std::uint64_t kept = (magnitude >> 11 << 11) | ((magnitude & 0x7FF) ? 1ULL << 11 : 0);
  return value < 0 ? -static_cast<double>(kept) : static_cast<double>(kept);
}

double sticky_double(std::uint64_t value) {
  if (value < (1ULL << 53)) return static_cast<double>(value);
  return static_cast<double>((value >> 12 << 12) | ((value & 0xFFF) ? 1ULL << 12 : 0));
}

struct Limits {
  std::int64_t low;
  std::uint64_t high;
};

Limits limits(DType dtype) {
  const int width = bits(dtype);
  if (dtype_class(dtype) == DTypeClass::unsigned_integer) return {0, width == 64 ? ~0ULL : (1ULL << width) - 1};
  return {-static_cast<std::int64_t>((1ULL << (width - 1)) - 1) - 1, (1ULL << (width - 1)) - 1};
}

std::int64_t float_to_integer(double value, const Limits& range, bool is_unsigned, Overflow overflow) {
  const double whole = std::trunc(value);
  const bool below = whole < static_cast<double>(range.low);
  const bool above = whole > static_cast<double>(range.high) || whole >= (is_unsigned ? 18446744073709551616.0 : 9223372036854775808.0);
  if (overflow == Overflow::saturate) {
    if (std::isnan(value)) return 0;
    if (below) return range.low;
    if (above) return static_cast<std::int64_t>(range.high);
  }
  if (std::isnan(value) || std::abs(whole) >= 18446744073709551616.0) return 0;
  if (whole >= 9223372036854775808.0) return static_cast<std::int64_t>(static_cast<std::uint64_t>(whole));
  if (whole < -9223372036854775808.0) return 0;
  return static_cast<std::int64_t>(whole);
}

std::int64_t wrap_four_bits(std::int64_t value, bool is_signed) {
  value &= 15;
  return is_signed && value > 7 ? value - 16 : value;
}

void encode_integers(std::int64_t* values, void* to, DType dtype, std::int64_t count) {
  if (bits(dtype) == 4)
    for (std::int64_t i = 0; i < count; ++i) values[i] = wrap_four_bits(values[i], dtype == DType::i4);
  switch (host_bytes(dtype)) {
    case 8: std::memcpy(to, values, static_cast<std::size_t>(count) * 8); return;
    case 4:
      for (std::int64_t i = 0; i < count; ++i) static_cast<std::int32_t*>(to)[i] = static_cast<std::int32_t>(values[i]);
      return;
    case 2:
      for (std::int64_t i = 0; i < count; ++i) static_cast<std::int16_t*>(to)[i] = static_cast<std::int16_t>(values[i]);
      return;
    default:
      for (std::int64_t i = 0; i < count; ++i) static_cast<std::int8_t*>(to)[i] = static_cast<std::int8_t>(values[i]);
  }
}

void saturate(std::int64_t* values, std::int64_t count, DType from, DType to) {
  const Limits range = limits(to);
  const bool huge = from == DType::u64;
  for (std::int64_t i = 0; i < count; ++i) {
    const bool positive = huge || values[i] >= 0;
    if (positive && static_cast<std::uint64_t>(values[i]) > range.high) values[i] = static_cast<std::int64_t>(range.high);
    else if (!positive && values[i] < range.low) values[i] = range.low;
  }
}

void convert_chunk(const void* from, DType source, void* to, DType target, std::int64_t count, Rounding rounding, Overflow overflow) {
  double floats[chunk];
  std::int64_t integers[chunk];
  const bool from_float = is_float(source) || source == DType::c64;
  const bool to_float = is_float(target) || target == DType::c64;
  if (from_float) decode_floats(from, source, floats, count);
  else decode_integers(from, source, integers, count);
  if (target == DType::boolean) {
    for (std::int64_t i = 0; i < count; ++i) static_cast<std::uint8_t*>(to)[i] = from_float ? floats[i] != 0 : integers[i] != 0;
    return;
  }
  if (to_float) {
    if (!from_float && target == DType::f64) {
      for (std::int64_t i = 0; i < count; ++i)
        floats[i] = source == DType::u64 ? static_cast<double>(static_cast<std::uint64_t>(integers[i])) : static_cast<double>(integers[i]);
    } else if (!from_float) {
      for (std::int64_t i = 0; i < count; ++i)
        floats[i] = source == DType::u64 ? sticky_double(static_cast<std::uint64_t>(integers[i])) : sticky_double(integers[i]);
    }
    encode_floats(floats, to, target, count, rounding, overflow);
    return;
  }
  if (from_float) {
    const Limits range = limits(target);
    const bool is_unsigned = dtype_class(target) == DTypeClass::unsigned_integer;
    for (std::int64_t i = 0; i < count; ++i) integers[i] = float_to_integer(floats[i], range, is_unsigned, overflow);
  } else if (overflow == Overflow::saturate) {
    saturate(integers, count, source, target);
  }
  encode_integers(integers, to, target, count);
}

/// Common pairs in loops that vectorize. Returns whether it did the work.
bool convert_fast(const void* from, DType source, void* to, DType target, std::int64_t count) {
  if (source == DType::f32 && target == DType::bf16) {
    for (std::int64_t i = 0; i < count; ++i) static_cast<std::uint16_t*>(to)[i] = f32_to_bf16(static_cast<const float*>(from)[i]);
  } else if (source == DType::bf16 && target == DType::f32) {
    for (std::int64_t i = 0; i < count; ++i) static_cast<float*>(to)[i] = bf16_to_f32(static_cast<const std::uint16_t*>(from)[i]);
  } else if (source == DType::f32 && target == DType::f64) {
    widen<float>(from, static_cast<double*>(to), count);
  } else if (source == DType::f64 && target == DType::f32) {
    widen<double>(from, static_cast<float*>(to), count);
  } else if (source == DType::i8 && target == DType::f32) {
    widen<std::int8_t>(from, static_cast<float*>(to), count);
  } else if (source == DType::i8 && target == DType::i64) {
    widen<std::int8_t>(from, static_cast<std::int64_t*>(to), count);
  } else if (source == DType::i32 && target == DType::i64) {
    widen<std::int32_t>(from, static_cast<std::int64_t*>(to), count);
  } else {
    return false;
  }
  return true;
}

}  // namespace

void convert(const void* from, DType from_dtype, void* to, DType to_dtype, std::int64_t count, Rounding rounding, Overflow overflow) {
  if (count <= 0) return;
  if (from_dtype == to_dtype) {
    std::memmove(to, from, static_cast<std::size_t>(count * host_bytes(from_dtype)));
    return;
  }
  if (rounding == Rounding::nearest_even && overflow == Overflow::ieee && convert_fast(from, from_dtype, to, to_dtype, count)) return;
  const auto* source = static_cast<const std::byte*>(from);
  auto* target = static_cast<std::byte*>(to);
  for (std::int64_t done = 0; done < count; done += chunk)
    convert_chunk(source + done * host_bytes(from_dtype), from_dtype, target + done * host_bytes(to_dtype), to_dtype,
                  std::min(chunk, count - done), rounding, overflow);
}

void round_through(float* values, std::int64_t count, DType through) {
  if (through == DType::f32 || through == DType::f64) return;
  if (through == DType::bf16) {
    for (std::int64_t i = 0; i < count; ++i) values[i] = bf16_to_f32(f32_to_bf16(values[i]));
    return;
  }
  std::uint16_t narrow[chunk];
  for (std::int64_t done = 0; done < count; done += chunk) {
    const std::int64_t size = std::min(chunk, count - done);
    convert(values + done, DType::f32, narrow, through, size);
    convert(narrow, through, values + done, DType::f32, size);
  }
}

void tf32_round(float* values, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const auto raw = std::bit_cast<std::uint32_t>(values[i]);
    if ((raw & 0x7F800000) == 0x7F800000) continue;
    values[i] = std::bit_cast<float>((raw + 0x0FFF + ((raw >> 13) & 1)) & 0xFFFFE000U);
  }
}

}  // namespace tilesim
