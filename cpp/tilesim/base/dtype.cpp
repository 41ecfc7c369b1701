#include "tilesim/base/dtype.hpp"

#include <array>
#include <cctype>
#include <cmath>
#include <utility>

#include "tilesim/base/error.hpp"
#include "tilesim/base/float_format.hpp"

namespace tilesim {

namespace {

struct DTypeInfo {
  std::string_view name;
  int bits;
  DTypeClass kind;
  int mantissa;        ///< stored fraction bits of a float
  int value_bits = 0;  ///< if fewer than the stored bits; else 0
};

using C = DTypeClass;
constexpr std::array<DTypeInfo, dtype_count + pattern_count> table{{
    {"f64", 64, C::floating, 52},        {"f32", 32, C::floating, 23},         {"f16", 16, C::floating, 10},
    {"bf16", 16, C::floating, 7},        {"f8e4m3fn", 8, C::floating, 3},      {"f8e5m2", 8, C::floating, 2},
    {"f8e4m3fnuz", 8, C::floating, 3},   {"f8e5m2fnuz", 8, C::floating, 2},    {"f8e8m0fnu", 8, C::floating, 0},
    {"f4e2m1fn", 4, C::floating, 1},     {"i64", 64, C::signed_integer, 0},    {"i32", 32, C::signed_integer, 0},
    {"i16", 16, C::signed_integer, 0},   {"i8", 8, C::signed_integer, 0},      {"i4", 4, C::signed_integer, 0},
    {"u64", 64, C::unsigned_integer, 0}, {"u32", 32, C::unsigned_integer, 0},  {"u16", 16, C::unsigned_integer, 0},
    {"u8", 8, C::unsigned_integer, 0},   {"u4", 4, C::unsigned_integer, 0},    {"bool", 8, C::boolean, 0},
    {"c64", 64, C::complex, 23},         {"c128", 128, C::complex, 52},        {"f8e4m3ieee", 8, C::floating, 3},
    {"f8e3m4", 8, C::floating, 4},       {"f8e4m3b11fnuz", 8, C::floating, 3}, {"f6e2m3fn", 8, C::floating, 3, 6},
    {"f6e3m2fn", 8, C::floating, 2, 6},  {"i2", 8, C::signed_integer, 0, 2},   {"u2", 8, C::unsigned_integer, 0, 2},
    {"f32_2of4", 136, C::pattern, 0},    {"f16_2of4", 72, C::pattern, 0},      {"bf16_2of4", 72, C::pattern, 0},
    {"i8_2of4", 40, C::pattern, 0},
}};
constexpr std::array<std::pair<DType, DType>, pattern_count> patterns{{{DType::f32, DType::f32_2of4},
                                                                       {DType::f16, DType::f16_2of4},
                                                                       {DType::bf16, DType::bf16_2of4},
                                                                       {DType::i8, DType::i8_2of4}}};

const DTypeInfo& entry(DType dtype) { return table[static_cast<std::size_t>(dtype)]; }

/// Names that frameworks and vendors use.
constexpr std::pair<std::string_view, DType> aliases[] = {{"bfloat", DType::bf16},
                                                          {"e4m3", DType::f8e4m3fn},
                                                          {"e5m2", DType::f8e5m2},
                                                          {"f8e8m0", DType::f8e8m0fnu},
                                                          {"e8m0", DType::f8e8m0fnu},
                                                          {"f4e2m1", DType::f4e2m1fn},
                                                          {"e2m1", DType::f4e2m1fn},
                                                          {"short", DType::i16},
                                                          {"byte", DType::u8},
                                                          {"ui64", DType::u64},
                                                          {"ui32", DType::u32},
                                                          {"ui16", DType::u16},
                                                          {"ui8", DType::u8},
                                                          {"ui4", DType::u4},
                                                          {"bool_", DType::boolean},
                                                          {"float64", DType::f64},
                                                          {"fp64", DType::f64},
                                                          {"double", DType::f64},
                                                          {"float32", DType::f32},
                                                          {"fp32", DType::f32},
                                                          {"float", DType::f32},
                                                          {"single", DType::f32},
                                                          {"float16", DType::f16},
                                                          {"fp16", DType::f16},
                                                          {"half", DType::f16},
                                                          {"bfloat16", DType::bf16},
                                                          {"float8_e4m3fn", DType::f8e4m3fn},
                                                          {"f8e4m3", DType::f8e4m3fn},
                                                          {"fp8", DType::f8e4m3fn},
                                                          {"fp8_e4m3", DType::f8e4m3fn},
                                                          {"f8", DType::f8e4m3fn},
                                                          {"float8_e5m2", DType::f8e5m2},
                                                          {"fp8_e5m2", DType::f8e5m2},
                                                          {"float8_e4m3fnuz", DType::f8e4m3fnuz},
                                                          {"float8_e5m2fnuz", DType::f8e5m2fnuz},
                                                          {"float8_e8m0fnu", DType::f8e8m0fnu},
                                                          {"float4_e2m1fn", DType::f4e2m1fn},
                                                          {"fp4", DType::f4e2m1fn},
                                                          {"int64", DType::i64},
                                                          {"s64", DType::i64},
                                                          {"long", DType::i64},
                                                          {"int32", DType::i32},
                                                          {"s32", DType::i32},
                                                          {"int", DType::i32},
                                                          {"int16", DType::i16},
                                                          {"s16", DType::i16},
                                                          {"int8", DType::i8},
                                                          {"s8", DType::i8},
                                                          {"int4", DType::i4},
                                                          {"s4", DType::i4},
                                                          {"uint64", DType::u64},
                                                          {"uint32", DType::u32},
                                                          {"uint16", DType::u16},
                                                          {"uint8", DType::u8},
                                                          {"uint4", DType::u4},
                                                          {"i1", DType::boolean},
                                                          {"pred", DType::boolean},
                                                          {"boolean", DType::boolean},
                                                          {"complex64", DType::c64},
                                                          {"complex128", DType::c128},
                                                          {"float8_e4m3", DType::f8e4m3ieee},
                                                          {"float8_e3m4", DType::f8e3m4},
                                                          {"float8_e4m3b11fnuz", DType::f8e4m3b11fnuz},
                                                          {"float6_e2m3fn", DType::f6e2m3fn},
                                                          {"float6_e3m2fn", DType::f6e3m2fn},
                                                          {"int2", DType::i2},
                                                          {"s2", DType::i2},
                                                          {"uint2", DType::u2},
                                                          {"ui2", DType::u2}};

}  // namespace

int bits(DType dtype) { return entry(dtype).bits; }
int value_bits(DType dtype) { return entry(dtype).value_bits != 0 ? entry(dtype).value_bits : entry(dtype).bits; }
int host_bytes(DType dtype) { return (entry(dtype).bits + 7) / 8; }
std::int64_t packed_bytes(DType dtype, std::int64_t count) {
  return bits(dtype) == 4 ? count / 2 + count % 2 : count * (bits(dtype) / 8);
}
bool is_two_of_four(DType dtype) { return entry(dtype).kind == C::pattern; }
DType two_of_four(DType plain) {
  for (const auto& [own, pattern] : patterns)
    if (own == plain) return pattern;
  return plain;
}
DType plain_of(DType dtype) {
  for (const auto& [own, pattern] : patterns)
    if (pattern == dtype) return own;
  return dtype;
}
DTypeClass dtype_class(DType dtype) { return entry(dtype).kind; }
DType part_of(DType dtype) { return dtype == DType::c64 ? DType::f32 : dtype == DType::c128 ? DType::f64 : dtype; }
bool nan_for_minus_zero(DType dtype) {
  const FloatFormat* format = narrow_format(dtype);
  return format && !format->negative_zero;
}
bool is_complex(DType dtype) { return entry(dtype).kind == C::complex; }
bool is_float(DType dtype) { return entry(dtype).kind == C::floating; }
bool is_integer(DType dtype) {
  return entry(dtype).kind == C::signed_integer || entry(dtype).kind == C::unsigned_integer;
}
std::string_view name(DType dtype) { return entry(dtype).name; }

DType parse_dtype(std::string_view text) {
  for (int i = 0; i < dtype_count; ++i)
    if (table[static_cast<std::size_t>(i)].name == text) return static_cast<DType>(i);
  for (const auto& [alias, dtype] : aliases)
    if (alias == text) return dtype;
  std::vector<std::string> known = dtype_names();
  const std::string allowed = join(known);
  for (const auto& [alias, dtype] : aliases) known.emplace_back(alias);
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  throw UserError({"unknown dtype", {}, "'" + std::string(text) + "'", allowed, nearest(lower, known)});
}

DType parse_held_dtype(std::string_view text) {
  for (const auto& [plain, pattern] : patterns)
    if (name(pattern) == text) return pattern;
  return parse_dtype(text);
}

std::vector<std::string> dtype_names() {
  std::vector<std::string> names;
  for (int i = 0; i < dtype_count; ++i) names.emplace_back(table[static_cast<std::size_t>(i)].name);
  return names;
}

double unit_roundoff(DType dtype) {
  const DTypeInfo& e = entry(dtype);
  return e.kind == C::floating || e.kind == C::complex ? std::ldexp(1.0, -e.mantissa - 1) : 0.0;
}

}  // namespace tilesim
