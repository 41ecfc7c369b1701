// Types in which an array multiplies and accumulates.
#pragma once

#include <cstdint>
#include <optional>

#include "tilesim/base/dtype.hpp"

namespace tilesim {

/// How products are computed. `exact`: operands as stored, accumulated in `accumulate` (f32 or wider). On a machine,
/// float operands wider than `multiply` are first rounded to it (TPU v3: bf16), nearest even.
struct Numerics {
  std::optional<DType> multiply;  ///< operand type of float products; empty: as stored
  bool multiply_tf32 = false;     ///< operands rounded to tf32 instead
  DType accumulate = DType::f32;  ///< for float products; integers accumulate in i32 (i64 for 32-bit and wider)
  friend bool operator==(const Numerics&, const Numerics&) = default;
};

inline Numerics exact_numerics() { return {}; }

/// Whether float operands of this type are rounded to the less precise `multiply`.
inline bool rounds_operands(const Numerics& numerics, DType dtype) {
  return numerics.multiply && is_float(dtype) && unit_roundoff(dtype) < unit_roundoff(*numerics.multiply);
}

}  // namespace tilesim
