#include "tilesim/tile/movement.hpp"

#include <algorithm>
#include <cstdlib>

#include "tilesim/base/shape.hpp"

namespace tilesim {

std::int64_t Move::elements() const {
  std::int64_t count = nothing ? 0 : 1;
  for (const MoveDim& dim : dims) count *= dim.extent;
  return count;
}

std::int64_t Move::run() const {
  return !dims.empty() && dims.back().in == 1 && dims.back().out == 1 ? dims.back().extent : 1;
}

std::vector<MoveDim> joined(const std::vector<MoveDim>& dims) {
  std::vector<MoveDim> all;
  for (const MoveDim& dim : dims) {
    if (!all.empty() && all.back().in == dim.in * dim.extent && all.back().out == dim.out * dim.extent)
      all.back() = {all.back().extent * dim.extent, dim.in, dim.out};
    else
      all.push_back(dim);
  }
  return all;
}

Move move_of(std::span<const ViewDim> in, std::span<const ViewDim> out) {
  Move move;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const std::int64_t extent = in[i].extent;
    if (extent <= 0) return move.dims.clear(), move.nothing = true, move;
    if (extent == 1) continue;
    MoveDim dim{extent, in[i].stride, out[i].stride};
    if (dim.out == 0) {
      move.in_first += (extent - 1) * dim.in;
      continue;
    }
    if (dim.out < 0) {
      move.in_first += (extent - 1) * dim.in, move.out_first += (extent - 1) * dim.out;
      dim.in = -dim.in, dim.out = -dim.out;
    }
    move.dims.push_back(dim);
  }
  std::stable_sort(move.dims.begin(), move.dims.end(),
                   [](const MoveDim& a, const MoveDim& b) { return a.out > b.out; });
  move.dims = joined(move.dims);
  std::int64_t reach = 0;
  for (auto dim = move.dims.rbegin(); dim != move.dims.rend(); ++dim) {
    move.overlaps |= dim->out <= reach;
    reach += (dim->extent - 1) * dim->out;
  }
  return move;
}

namespace {

struct Bytes { std::int64_t first = 0, end = 0; };

Bytes bytes_from(const TileView& view, std::int64_t base, int element_bits) {
  std::int64_t low = 0, high = 0;
  for (const ViewDim& dim : view.dims) {
    if (dim.extent <= 0) return {};
    (dim.stride < 0 ? low : high) += dim.stride * (dim.extent - 1);
  }
  return {base + low * element_bits / 8, base + ceil_div((high + 1) * element_bits, 8)};
}

}  // namespace

bool share_bytes(const TileView& a, const TileView& b) {
  const bool known = a.address >= 0 && b.address >= 0;
  if (known ? a.memory != b.memory : a.data == nullptr || b.data == nullptr) return false;
  const auto of = [&](const TileView& view) {
    if (known) return bytes_from(view, view.address, bits(view.dtype));
    return bytes_from(view, reinterpret_cast<std::intptr_t>(view.data), 8 * host_bytes(view.dtype));
  };
  const Bytes one = of(a), other = of(b);
  return one.first < other.end && other.first < one.end;
}

namespace {

/// Side of the squares (at most 8 bytes per row) in which the cross-lane unit can transpose narrow elements that are
/// contiguous along different dims in both views; 1: none. Kernels follow the same rule.
std::int64_t squares_of(DType dtype, const Move& move) {
  const std::int64_t bytes = bits(dtype) / 8;
  const auto a = std::find_if(move.dims.begin(), move.dims.end(), [](const MoveDim& dim) { return dim.in == 1; });
  if (bytes < 1 || move.dims.size() < 2 || move.dims.back().out != 1 || a >= move.dims.end() - 1) return 1;
  const MoveDim& b = move.dims.back();
  for (std::int64_t beside = 8 / bytes; beside > 1; beside /= 2) {
    bool whole = a->extent % beside == 0 && b.extent % beside == 0 && b.in % beside == 0 && a->out % beside == 0;
    whole = whole && move.in_first % beside == 0 && move.out_first % beside == 0;
    for (const MoveDim& dim : move.dims)
      if (&dim != &*a && &dim != &b) whole = whole && dim.in % beside == 0 && dim.out % beside == 0;
    if (whole) return beside;
  }
  return 1;
}

}  // namespace

Descriptor permute_descriptor(DType dtype, const Move& move, bool in_place) {
  Descriptor d;
  d.kind = ComputeKind::permute;
  d.dtype = dtype;
  d.elements = move.elements();
  d.k = move.run(), d.k_outer = squares_of(dtype, move);
  for (const MoveDim& dim : move.dims)
    if (dim.in != 1 || dim.out != 1) d.lane_extent = std::max(d.lane_extent, dim.extent);
  bool moves = move.in_first != move.out_first;
  for (const MoveDim& dim : move.dims) moves |= dim.in != dim.out;
  d.batch = in_place ? moves ? 2 : 0 : 1;
  return d;
}

Descriptor indexed_descriptor(DType dtype, DType index, const IndexedRows& rows) {
  Descriptor d;
  d.kind = ComputeKind::indexed;
  d.dtype = dtype, d.second = index;
  d.m = rows.count;
  d.elements = rows.count * rows.row.elements();
  d.k = rows.row.run();
  if (rows.combiner) {
    const bool product = *rows.combiner == Combiner::multiply;
    d.functions = {product ? 0 : 1, product ? 1 : 0, 0, 0};
  }
  return d;
}

}  // namespace tilesim
