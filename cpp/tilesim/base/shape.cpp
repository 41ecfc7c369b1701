#include "tilesim/base/shape.hpp"

#include <algorithm>

#include "tilesim/base/error.hpp"

namespace tilesim {

namespace {

/// With this limit, bytes and bits of a tensor of any dtype are below 2^63.
constexpr std::int64_t largest_count = std::int64_t{1} << 56;

}  // namespace

std::int64_t element_count(const Shape& shape) {
  std::int64_t count = 1;
  bool zero = false;
  for (std::int64_t extent : shape) {
    if (extent < 0) throw UserError({"a shape has a negative extent", {}, to_string(shape), "extents >= 0", {}});
    zero |= extent == 0;
    // Counts the other extents even if one is zero, because strides are products of them.
    if (extent > 0 && (__builtin_mul_overflow(count, extent, &count) || count > largest_count))
      throw UserError({"a tensor has too many elements", {}, to_string(shape), "at most 2^56", {}});
  }
  return zero ? 0 : count;
}

Shape row_major_strides(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (std::size_t axis = shape.size(); axis-- > 1;)
    strides[axis - 1] = strides[axis] * std::max<std::int64_t>(1, shape[axis]);
  return strides;
}

Shape broadcast_shapes(const Shape& a, const Shape& b) {
  Shape result(std::max(a.size(), b.size()));
  for (std::size_t i = 0; i < result.size(); ++i) {
    const std::int64_t left = i < a.size() ? a[a.size() - 1 - i] : 1;
    const std::int64_t right = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (left != right && left != 1 && right != 1)
      throw UserError({"shapes do not broadcast together",
                       {},
                       to_string(a) + " and " + to_string(b),
                       "equal extents or 1, aligned at the last axis",
                       {}});
    result[result.size() - 1 - i] = left == 1 ? right : left;
  }
  return result;
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

std::optional<Shape> narrow_reshaped(const Shape& from, const Shape& narrow, const Shape& to) {
  Shape result;
  std::size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {  // groups of axes with the same elements
    const std::size_t first = i, begin = j;
    std::int64_t a = i < from.size() ? from[i++] : 1, b = j < to.size() ? to[j++] : 1;
    while (a != b) {
      if (a < b ? i == from.size() : j == to.size()) return std::nullopt;
      (a < b ? a : b) *= a < b ? from[i++] : to[j++];
    }
    std::int64_t held = 1;
    for (std::size_t axis = first; axis < i; ++axis) held *= narrow[axis];
    if (held != a && held != 1) return std::nullopt;
    for (std::size_t axis = begin; axis < j; ++axis) result.push_back(held == a ? to[axis] : 1);
  }
  return result;
}

}  // namespace tilesim
