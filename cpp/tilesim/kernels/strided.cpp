// Copies between strided views, for all kinds that only move data.
#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "tilesim/kernels/kernel.hpp"

namespace tilesim::kernels {
namespace {

struct Loop { std::int64_t extent = 1, from = 0, to = 0; };

/// Loops without those of extent 1; neighbours that advance together become one.
std::vector<Loop> collapsed(const Shape& extents, const Shape& from_strides, const Shape& to_strides) {
  std::vector<Loop> loops;
  for (std::size_t axis = 0; axis < extents.size(); ++axis) {
    const Loop next{extents[axis], from_strides[axis], to_strides[axis]};
    if (next.extent == 1) continue;
    if (!loops.empty() && loops.back().from == next.from * next.extent && loops.back().to == next.to * next.extent) {
      loops.back() = {loops.back().extent * next.extent, next.from, next.to};
    } else {
      loops.push_back(next);
    }
  }
  return loops;
}

template <class T>
void copy_row(const Loop& loop, const T* from, T* to) {
  if (loop.from == 1 && loop.to == 1) {
    std::memcpy(to, from, static_cast<std::size_t>(loop.extent) * sizeof(T));
  } else if (loop.from == 0 && loop.to == 1) {
    std::fill_n(to, loop.extent, *from);
  } else {
    for (std::int64_t i = 0; i < loop.extent; ++i) to[i * loop.to] = from[i * loop.from];
  }
}

/// Runs the two innermost loops in square blocks, so that a side that is accessed across rows stays in the cache.
template <class T>
void copy_square(const Loop& outer, const Loop& inner, const T* from, T* to) {
  constexpr std::int64_t side = 32;
  for (std::int64_t i = 0; i < outer.extent; i += side) {
    const std::int64_t i_end = std::min(i + side, outer.extent);
    for (std::int64_t j = 0; j < inner.extent; j += side) {
      const Loop part{std::min(side, inner.extent - j), inner.from, inner.to};
      for (std::int64_t row = i; row < i_end; ++row) {
        copy_row(part, from + row * outer.from + j * inner.from, to + row * outer.to + j * inner.to);
      }
    }
  }
}

template <class T>
void copy_loops(const std::vector<Loop>& loops, std::size_t depth, const T* from, T* to) {
  const std::size_t left = loops.size() - depth;
  if (left == 0) {
    *to = *from;
  } else if (left == 1) {
    copy_row(loops[depth], from, to);
  } else if (left == 2 && loops[depth + 1].from != 1) {
    copy_square(loops[depth], loops[depth + 1], from, to);
  } else {
    const Loop& loop = loops[depth];
    for (std::int64_t i = 0; i < loop.extent; ++i) copy_loops(loops, depth + 1, from + i * loop.from, to + i * loop.to);
  }
}

template <class T>
void typed_copy(std::vector<Loop> loops, const std::byte* from, std::byte* to) {
  // The loop with contiguous reads becomes the last but one.
  const auto reading = std::ranges::find_if(loops, [](const Loop& loop) { return loop.from == 1; });
  if (reading != loops.end() && loops.end() - reading > 2) std::rotate(reading, reading + 1, loops.end() - 1);
  copy_loops(loops, 0, reinterpret_cast<const T*>(from), reinterpret_cast<T*>(to));
}

}  // namespace

void strided_copy(const Shape& extents, const std::byte* from, const Shape& from_strides, std::byte* to,
                  const Shape& to_strides, int bytes) {
  if (std::ranges::count(extents, 0) > 0) return;
  std::vector<Loop> loops = collapsed(extents, from_strides, to_strides);
  switch (bytes) {
    case 1:
      return typed_copy<std::uint8_t>(std::move(loops), from, to);
    case 2:
      return typed_copy<std::uint16_t>(std::move(loops), from, to);
    case 4:
      return typed_copy<std::uint32_t>(std::move(loops), from, to);
    case 8:
      return typed_copy<std::uint64_t>(std::move(loops), from, to);
    case 16:
      return typed_copy<std::array<std::uint64_t, 2>>(std::move(loops), from, to);
    default:
      throw InternalError("strided_copy: element size");
  }
}

Array permuted(const Array& x, const std::vector<std::int64_t>& permutation) {
  if (std::ranges::is_sorted(permutation)) return x;
  const Shape strides = row_major_strides(x.shape());
  Shape shape, from;
  for (const std::int64_t axis : permutation) {
    shape.push_back(x.shape()[static_cast<std::size_t>(axis)]);
    from.push_back(strides[static_cast<std::size_t>(axis)]);
  }
  Array result(x.dtype(), shape);
  strided_copy(shape, x.bytes(), from, result.bytes(), row_major_strides(shape), host_bytes(x.dtype()));
  return result;
}

Array broadcasted(const Array& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  const Shape own = row_major_strides(x.shape());
  Shape strides(shape.size(), 0);
  const std::size_t lead = shape.size() - x.shape().size();
  for (std::size_t axis = 0; axis < x.shape().size(); ++axis) {
    if (x.shape()[axis] != 1) strides[lead + axis] = own[axis];
  }
  Array result(x.dtype(), shape);
  strided_copy(shape, x.bytes(), strides, result.bytes(), row_major_strides(shape), host_bytes(x.dtype()));
  return result;
}

AxisView axis_view(const Shape& shape, std::int64_t axis) {
  AxisView view;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(shape.size()); ++i) {
    const std::int64_t extent = shape[static_cast<std::size_t>(i)];
    (i < axis ? view.outer : i == axis ? view.extent : view.inner) *= extent;
  }
  return view;
}

}  // namespace tilesim::kernels
