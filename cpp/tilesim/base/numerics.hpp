// The types in which an array multiplies and accumulates.
#pragma once

#include <cstdint>
#include <optional>

#include "tilesim/base/dtype.hpp"

namespace tilesim {

/// How products are computed. The default uses operands as stored and accumulates in f32. If `multiply` is set, float
/// operands with more precision are first rounded to it, to nearest even (TPU v3: bf16).
struct Numerics {
  std::optional<DType> multiply;  ///< operand type of float products; empty: as stored
  bool multiply_tf32 = false;     ///< round operands to tf32 instead
  DType accumulate = DType::f32;  ///< for float products; integers use i32 (i64 for 32 bits and more)
  friend bool operator==(const Numerics&, const Numerics&) = default;
};

inline Numerics exact_numerics() { return {}; }

/// Whether float operands of type `dtype` are rounded to `multiply`, because it has less precision.
inline bool rounds_operands(const Numerics& numerics, DType dtype) {
  return numerics.multiply && is_float(dtype) && unit_roundoff(dtype) < unit_roundoff(*numerics.multiply);
}

}  // namespace tilesim
