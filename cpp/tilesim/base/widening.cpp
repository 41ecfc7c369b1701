#include "tilesim/base/widening.hpp"

namespace tilesim {

bool holds_narrow(DType wide, DType narrow) {
  constexpr int most = 8;  // bits
  if (bits(narrow) > most || narrow == DType::boolean || is_complex(narrow)) return false;
  if (wide == narrow) return true;
  if (is_float(narrow)) {
    if (wide == DType::bf16 || wide == DType::f32 || wide == DType::f64) return true;
    return wide == DType::f16 && narrow != DType::f8e8m0fnu;  // f8e8m0fnu has the exponents of f32
  }
  const bool is_signed = dtype_class(narrow) == DTypeClass::signed_integer;
  switch (wide) {
    case DType::i8:
    case DType::i16:
    case DType::i32:
    case DType::i64:
      return bits(wide) > bits(narrow) || (is_signed && bits(wide) == bits(narrow));
    case DType::u8:
    case DType::u16:
    case DType::u32:
    case DType::u64:
      return !is_signed && bits(wide) >= bits(narrow);
    default:
      return false;
  }
}

}  // namespace tilesim
