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
  f8e4m3ieee,  ///< with infinities, like `f8e3m4`
  f8e3m4,
  f8e4m3b11fnuz,
  f6e2m3fn,
  f6e3m2fn,
  i2,
  u2,
  // Types of array operands in the 2:4 pattern: see `two_of_four`.
  f32_2of4,
  f16_2of4,
  bf16_2of4,
  i8_2of4,
};
inline constexpr int dtype_count = 30;  ///< number of tensor types; pattern types follow
inline constexpr int pattern_count = 4;

enum class DTypeClass : std::uint8_t { floating, signed_integer, unsigned_integer, boolean, complex, pattern };

/// Bits that one element occupies in a memory (4 for i4; 8 for bool, i2, u2 and 6-bit floats; 64 for c64).
int bits(DType dtype);
/// Bits of an element's value: 2 for i2, 6 for f6e2m3fn, bits(dtype) for most types.
int value_bits(DType dtype);
/// Bytes that one element occupies in a host Array. Elements below a byte occupy one byte, as in ml_dtypes.
int host_bytes(DType dtype);
/// Bytes of `count` densely packed elements in a memory: ceil(count * bits / 8).
std::int64_t packed_bytes(DType dtype, std::int64_t count);
/// An element of a 2:4 type is eight adjacent elements of the plain type, with at most two nonzeros in each four: four
/// values, then a byte with each value's position in its group of four, two bits each, the first lowest.
inline constexpr std::int64_t pattern_neighbours = 8, pattern_values = 4;
bool is_two_of_four(DType dtype);
/// two_of_four: the 2:4 type of a plain type, or the type itself if there is no 2:4 type; plain_of: the inverse.
DType two_of_four(DType plain);
DType plain_of(DType dtype);

DTypeClass dtype_class(DType dtype);
/// The type of the real and imaginary part of a complex dtype, stored in this order; other dtypes are returned as is.
DType part_of(DType dtype);
bool is_complex(DType dtype);
bool is_float(DType dtype);
bool nan_for_minus_zero(DType dtype);  ///< the `uz` formats: one NaN, no infinity
bool is_integer(DType dtype);          ///< signed or unsigned, without bool
/// The canonical short name: "f32", "bf16", "i8", "bool", ...
std::string_view name(DType dtype);
/// Parses a canonical name or alias ("bfloat16", "fp32", "float32", ...). Throws UserError with a suggestion.
DType parse_dtype(std::string_view text);
/// Like parse_dtype, for the types of programs: also accepts 2:4 types.
DType parse_held_dtype(std::string_view text);
std::vector<std::string> dtype_names();

/// Unit roundoff (half the spacing above 1) of a float type; 0 for integers and bool.
double unit_roundoff(DType dtype);

enum class Rounding : std::uint8_t { nearest_even, toward_zero };
enum class Overflow : std::uint8_t { ieee, saturate };  ///< ieee: floats give inf or nan, integers wrap

/// Converts `count` elements between ranges that do not overlap. Exact if the target type has the value, else rounded
/// once. Float to integer truncates toward zero and turns NaN into 0; `overflow` decides about values out of range
/// (saturate clamps; ieee wraps, infinities give 0). Elements are stored as in ml_dtypes: below a byte, in a byte's low
/// bits. Real to complex sets the imaginary part to 0; complex to real keeps the real part.
void convert(const void* from, DType from_dtype, void* to, DType to_dtype, std::int64_t count,
             Rounding rounding = Rounding::nearest_even, Overflow overflow = Overflow::ieee);

/// Rounds each f32 in place to a value of a narrower float type: bf16, f16, f8*, or tf32 (tf32_round).
void round_through(float* values, std::int64_t count, DType through);
void tf32_round(float* values, std::int64_t count);

}  // namespace tilesim
