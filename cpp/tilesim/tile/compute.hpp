// Builds the descriptor of a compute from extents, for programs (engine) and for loop nests (mapping).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "tilesim/base/shape.hpp"
#include "tilesim/tile/tile.hpp"
#include "tilesim/tile/vector_work.hpp"

namespace tilesim {

/// Dims of an array product in program order: batch, rows, contraction, columns, each group from outer to inner. The
/// innermost row dim is along the sublanes.
struct ProductDims {
  int batch = 0, rows = 1, contraction = 1, columns = 1;
  int packed = 1;  ///< number of innermost contraction dims that share the array's rows
  bool stationary_a = false;
  bool accumulate = false;  ///< whether the first product adds to existing sums
  DType a = DType::f32, b = DType::f32;
};

/// Calls `extent(i)` once for each dim, in this order.
template <typename Extent>
Descriptor product_descriptor(const ProductDims& dims, const LayoutSpec& layout, Extent extent) {
  Descriptor d;
  d.kind = ComputeKind::mma;
  d.dtype = dims.a;
  d.second = dims.b;
  d.stationary_a = dims.stationary_a;
  d.accumulate = dims.accumulate;
  int next = 0;
  std::int64_t longest = 1;
  for (int i = 0; i < dims.batch; ++i) d.batch *= extent(next++);
  for (int i = 0; i < dims.rows; ++i) {
    std::int64_t size = extent(next++);
    // Registers with several sublanes enter the array as a whole.
    if (i + 1 == dims.rows && layout.tile.size() == 2) size = round_up(size, layout.tile[0]);
    d.m *= size;
    longest = std::max(longest, size);
  }
  for (int i = 0; i < dims.contraction; ++i) (i + dims.packed >= dims.contraction ? d.k : d.k_outer) *= extent(next++);
  for (int i = 0; i < dims.columns; ++i) d.n *= extent(next++);
  if (d.k_outer > 1 && longest < d.m) d.run = longest;  // a window ends a contiguous run of rows
  return d;
}

/// Operand that is stationary in the array: 0 or 1; -1: the sums are stationary.
int kept_operand(const ArraySpec& array, bool stationary_a);
/// Whether the stationary operand fits the array at once, so that the next compute can reuse it.
bool kept_whole(const ArraySpec& array, const Descriptor& descriptor);

/// Work of a vector compute per element: functions by class, and numbers of reductions and scans over the lanes.
struct VectorWork {
  std::array<std::int32_t, 4> functions{};  ///< simple, multiply, divide, transcendental
  std::int64_t lane_reductions = 0, lane_scans = 0;
  CustomWork custom{};
  VectorPattern pattern{};
};

/// Calls `extent(i)` once for each of `dims` dims. `lane`: the lane dim; -1: the innermost dim.
template <typename Extent>
Descriptor vector_descriptor(DType dtype, const VectorWork& work, int dims, int lane, Extent extent) {
  Descriptor d;
  d.kind = ComputeKind::vector;
  d.dtype = dtype;
  d.elements = 1;
  std::array<std::int64_t, most_vector_dims> extents;
  for (int i = 0; i < dims; ++i) {
    const std::int64_t size = std::max<std::int64_t>(0, extent(i));
    d.elements *= size;
    if (lane >= 0 ? i == lane : i + 1 == dims) d.lane_extent = size;
    if (i < std::ssize(extents)) extents[static_cast<std::size_t>(i)] = size;
  }
  d.functions = work.functions;
  d.lane_reductions = work.lane_reductions;
  d.lane_scans = work.lane_scans;
  d.custom = work.custom;
  if (work.pattern.known() && dims <= std::ssize(extents))
    add_moves(d, work.pattern, std::span(extents.data(), static_cast<std::size_t>(dims)), lane);
  return d;
}

}  // namespace tilesim
