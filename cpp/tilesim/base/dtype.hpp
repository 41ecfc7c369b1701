// Element types, their ranges and exact conversions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tilesim {

enum class DType : std::uint8_t {
  f64,
  f32,
  f16,
  bf16,
  f8e4m3fn,
  f8e5m2,
  f8e4m3fnuz,
  f8e5m2fnuz,
  f8e8m0fnu,
  f4e2m1fn,
  i64,
  i32,
  i16,
  i8,
  i4,
  u64,
  u32,
  u16,
  u8,
  u4,
  boolean,
  c64,
  c128,
  f8e4m3ieee,  ///< with infinities, as `f8e3m4`
  f8e3m4,
  f8e4m3b11fnuz,
  f6e2m3fn,
  f6e3m2fn,
  i2,
  u2,
  // Types of operands in the 2:4 pattern of arrays: see `two_of_four`.
  f32_2of4,
  f16_2of4,
  bf16_2of4,
  i8_2of4,
};
inline constexpr int dtype_count = 30;  ///< tensor types; pattern types follow
inline constexpr int pattern_count = 4;

enum class DTypeClass : std::uint8_t { floating, signed_integer, unsigned_integer, boolean, complex, pattern };

/// Bits of one element as stored in a memory (4 for i4; 8 for bool, i2, u2 and floats of 6 bits; 64 for c64).
int bits(DType dtype);
/// Bits of its value: 2 for i2, 6 for f6e2m3fn, else as stored.
int value_bits(DType dtype);
/// Bytes of one element in a host Array: sub-byte types take one byte each, as in ml_dtypes.
int host_bytes(DType dtype);
/// Bytes of `count` densely packed elements in a memory: ceil(count * bits / 8).
std::int64_t packed_bytes(DType dtype, std::int64_t count);
/// An element of a 2:4 type represents eight adjacent elements of the plain type, of every four at most two nonzero:
/// four values, then a byte with each value's position in its group of four, two bits each, the first in the low bits.
inline constexpr std::int64_t pattern_neighbours = 8, pattern_values = 4;
bool is_two_of_four(DType dtype);
/// The 2:4 type of a plain type, or the type itself if it has none; and the inverse.
DType two_of_four(DType plain);
DType plain_of(DType dtype);

DTypeClass dtype_class(DType dtype);
/// The type of the parts of a complex dtype, real before imaginary; other dtypes are returned unchanged.
DType part_of(DType dtype);
bool is_complex(DType dtype);
bool is_float(DType dtype);
bool nan_for_minus_zero(DType dtype);  ///< the `uz` formats, which have one NaN and no infinity
bool is_integer(DType dtype);          ///< signed or unsigned, without bool
/// Canonical short name: "f32", "bf16", "i8", "bool", ...
std::string_view name(DType dtype);
/// Canonical name or alias ("bfloat16", "fp32", "float32", "int8", ...). Throws UserError with a suggestion.
DType parse_dtype(std::string_view text);
/// The same for the types of programs: also accepts 2:4 types.
DType parse_held_dtype(std::string_view text);
std::vector<std::string> dtype_names();

/// Unit roundoff u (half the spacing just above 1) of a float type; 0 for integers and bool.
double unit_roundoff(DType dtype);

enum class Rounding : std::uint8_t { nearest_even, toward_zero };
enum class Overflow : std::uint8_t { ieee, saturate };  ///< ieee: to inf/nan as the format defines; integers wrap

/// Converts `count` elements; the two ranges do not overlap. Exact wherever the target can hold the value, otherwise
/// rounded once (no double rounding). Float to integer truncates toward zero; out of range follows `overflow` (saturate
/// clamps; ieee wraps, infinities to 0), and NaN gives 0. Sources and targets as in ml_dtypes: an element of less
/// than a byte is the low bits of one, real to complex has imaginary part 0, complex to real is the real part.
void convert(const void* from, DType from_dtype, void* to, DType to_dtype, std::int64_t count,
             Rounding rounding = Rounding::nearest_even, Overflow overflow = Overflow::ieee);

/// Rounds each f32 in place to the values of a narrower float type (bf16, f16, f8*, tf32 by `tf32_round`).
void round_through(float* values, std::int64_t count, DType through);
void tf32_round(float* values, std::int64_t count);

}  // namespace tilesim
