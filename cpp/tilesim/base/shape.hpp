// Shapes, and small functions on integers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tilesim {

using Shape = std::vector<std::int64_t>;

/// Product of the extents. Throws UserError above 2^56, so that bytes and bits of all dtypes stay below 2^63.
std::int64_t element_count(const Shape& shape);
/// Row-major strides in elements.
Shape row_major_strides(const Shape& shape);
/// The numpy broadcast of two shapes; throws UserError with both shapes.
Shape broadcast_shapes(const Shape& a, const Shape& b);
std::string to_string(const Shape& shape);  ///< "[2, 3]"

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
constexpr std::int64_t round_up(std::int64_t a, std::int64_t b) { return ceil_div(a, b) * b; }
constexpr std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}
constexpr std::int64_t floor_mod(std::int64_t a, std::int64_t b) { return a - floor_div(a, b) * b; }

/// `narrow` is `from` with extent 1 along some axes. Returns this shape after a reshape of `from` to `to` (same
/// elements, same order). Empty if an axis of `to` combines an axis that has extent 1 in `narrow` with other axes.
std::optional<Shape> narrow_reshaped(const Shape& from, const Shape& narrow, const Shape& to);

}  // namespace tilesim
