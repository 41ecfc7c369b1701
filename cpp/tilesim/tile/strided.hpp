// Copies strided views of scratchpad elements to dense blocks and back.
#pragma once

#include <vector>

#include "tilesim/tile/tile.hpp"

namespace tilesim {

/// Calls `visit(offset)` for every point of `dims` in row-major order; offsets are in elements.
template <class Visit>
void for_each_offset(const ViewDim* dims, std::size_t rank, Visit visit) {
  std::vector<std::int64_t> index(rank, 0);
  for (std::size_t i = 0; i < rank; ++i)
    if (dims[i].extent <= 0) return;
  std::int64_t offset = 0;
  while (true) {
    visit(offset);
    std::size_t axis = rank;
    while (axis-- > 0) {
      offset += dims[axis].stride;
      if (++index[axis] < dims[axis].extent) break;
      offset -= dims[axis].stride * dims[axis].extent;
      index[axis] = 0;
      if (axis == 0) return;
    }
    if (rank == 0) return;
  }
}

/// Reads `count` elements at distance `stride` and converts them to T (float, double or int64).
template <class T>
void read_run(const std::byte* data, DType dtype, std::int64_t stride, std::int64_t count, T* to);
/// Writes `count` elements at distance `stride`, rounded to `dtype`.
template <class T>
void write_run(const T* from, std::byte* data, DType dtype, std::int64_t stride, std::int64_t count);

template <class T>
constexpr DType compute_dtype() {
  if constexpr (std::is_same_v<T, float>)
    return DType::f32;
  else if constexpr (std::is_same_v<T, double>)
    return DType::f64;
  else
    return DType::i64;
}

}  // namespace tilesim
