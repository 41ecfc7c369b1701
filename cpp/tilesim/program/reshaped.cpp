#include "tilesim/program/reshaped.hpp"

#include <cstddef>

namespace tilesim::program {

namespace {

/// The axes [first, end) of a shape.
struct AxesOf { std::size_t first, end; };

/// First and last element of a group's axes in the box; returns false if the box does not contain all elements between.
bool ends_of(const Box& box, const Shape& shape, AxesOf axes, std::int64_t& first, std::int64_t& last) {
  bool ranges = false, whole = true;
  first = last = 0;
  for (std::size_t axis = axes.first; axis < axes.end; ++axis) {
    first = first * shape[axis] + box.low[axis];
    last = last * shape[axis] + box.high[axis];
    if (ranges) whole &= box.low[axis] == 0 && box.high[axis] == shape[axis] - 1;
    ranges |= box.low[axis] != box.high[axis];
  }
  return whole;
}

/// The box from one element to another; returns false if the box contains other elements, too.
bool give_ends(const Shape& shape, AxesOf axes, std::int64_t first, std::int64_t last, Box& box) {
  for (std::size_t axis = axes.end; axis-- > axes.first; first /= shape[axis], last /= shape[axis]) {
    box.low[axis] = first % shape[axis];
    box.high[axis] = last % shape[axis];
  }
  bool ranges = false, exact = true;
  for (std::size_t axis = axes.first; axis < axes.end; ++axis) {
    const bool differ = box.low[axis] != box.high[axis];
    if (ranges) {
      exact &= box.low[axis] == 0 && box.high[axis] == shape[axis] - 1;
      box.low[axis] = 0;
      box.high[axis] = shape[axis] - 1;
    }
    ranges |= differ;
  }
  return exact;
}

}  // namespace

/// Translates group by group: a group consists of consecutive axes of both shapes with equal products of extents.
Reshaped reshaped(const Box& box, const Shape& from, const Shape& to) {
  Reshaped result{{Shape(to.size(), 0), Shape(to.size(), 0)}, true};
  if (from == to) return {box, true};
  for (std::size_t i = 0, j = 0; i < from.size() || j < to.size();) {
    AxesOf old{i, i}, now{j, j};
    std::int64_t size = i < from.size() ? from[i++] : 1, other = j < to.size() ? to[j++] : 1;
    while (size != other) {
      if (size < other && i < from.size())
        size *= from[i++];
      else if (other < size && j < to.size())
        other *= to[j++];
      else
        break;
    }
    old.end = i, now.end = j;
    std::int64_t first = 0, last = 0;
    result.exact &= ends_of(box, from, old, first, last);
    result.exact &= give_ends(to, now, first, last, result.box);
  }
  return result;
}

}  // namespace tilesim::program
