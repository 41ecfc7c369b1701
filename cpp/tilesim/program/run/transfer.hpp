// Copies blocks between a tensor and a slot. All expressions are evaluated.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "tilesim/base/dtype.hpp"
#include "tilesim/base/shape.hpp"

namespace tilesim::program {

struct ResolvedTransfer {
  struct Dim {
    std::int64_t extent = 1;
    int axis = -1;
    std::int64_t step = 1, stride = 0;
    int through = -1;                ///< tensor of row indices; -1: none
    std::int64_t through_start = 0;  ///< index of the first row index in it
    std::vector<std::int64_t> rows;  ///< row indices, once they have been read
  };
  std::byte* tensor = nullptr;  ///< row-major; null if only runs are visited
  const Shape* shape = nullptr;
  const Shape* strides = nullptr;
  std::vector<std::int64_t> at;
  std::vector<Dim> dims;
  DType dtype = DType::f32;
  std::int64_t slot_elements = 0, slot_offset = 0;
  bool has_fill = false;
  double fill = 0;
};

/// Copies tensor elements, or the fill value, into the slot's buffer.
void load_block(const ResolvedTransfer& transfer, std::byte* slot);
/// Copies slot elements into the tensor. If a fill is given, skips elements outside the tensor.
void store_block(const ResolvedTransfer& transfer, const std::byte* slot);

/// A run of a transfer: `count` elements along its innermost dim, either all inside the tensor or all outside.
struct Run {
  std::int64_t tensor_offset, tensor_stride, slot_offset, slot_stride, count;
  bool inside;
};

[[noreturn]] void fail_outside_tensor(const ResolvedTransfer& transfer, std::size_t axis, std::int64_t index);
[[noreturn]] void fail_outside_slot(const ResolvedTransfer& transfer, std::int64_t low, std::int64_t high);

/// Calls `visit(run)` for every run. Throws UserError outside the slot, and outside the tensor if there is no fill.
template <class Visit>
class RunWalker {
 public:
  RunWalker(const ResolvedTransfer& transfer, Visit& visit) : t_(transfer), visit_(visit), index_(transfer.at) {}
  void walk() {
    for (const auto& dim : t_.dims) {
      if (dim.extent <= 0) return;
    }
    level(0, t_.slot_offset);
  }

 private:
  static constexpr std::size_t no_axis = static_cast<std::size_t>(-1);

  void level(std::size_t depth, std::int64_t slot) {
    if (depth == t_.dims.size()) return single(slot, 0, 1);
    const auto& dim = t_.dims[depth];
    if (depth + 1 == t_.dims.size() && dim.through < 0) return innermost(dim, slot);
    if (dim.axis < 0) {
      for (std::int64_t i = 0; i < dim.extent; ++i) level(depth + 1, slot + i * dim.stride);
      return;
    }
    std::int64_t& index = index_[static_cast<std::size_t>(dim.axis)];
    const std::int64_t before = index;
    for (std::int64_t i = 0; i < dim.extent; ++i) {
      index = before + (dim.through < 0 ? i * dim.step : dim.rows[static_cast<std::size_t>(i)]);
      level(depth + 1, slot + i * dim.stride);
    }
    index = before;
  }

  /// Whether the indices of all axes except `except` are in range; sets `offset` to the offset over all axes.
  bool inside(std::size_t except, std::int64_t& offset) const {
    offset = 0;
    for (std::size_t axis = 0; axis < index_.size(); ++axis) {
      if (axis != except && (index_[axis] < 0 || index_[axis] >= (*t_.shape)[axis])) {
        if (!t_.has_fill) fail_outside_tensor(t_, axis, index_[axis]);
        return false;
      }
      offset += index_[axis] * (*t_.strides)[axis];
    }
    return true;
  }

  void check_slot(std::int64_t first, std::int64_t last) const {
    const auto [low, high] = std::minmax(first, last);
    if (low < 0 || high >= t_.slot_elements) fail_outside_slot(t_, low, high);
  }

  void single(std::int64_t slot, std::int64_t stride, std::int64_t count) {
    check_slot(slot, slot + (count - 1) * stride);
    std::int64_t offset = 0;
    const bool in = inside(no_axis, offset);
    visit_(Run{offset, 0, slot, stride, count, in});
  }

  void innermost(const ResolvedTransfer::Dim& dim, std::int64_t slot) {
    if (dim.axis < 0) return single(slot, dim.stride, dim.extent);
    check_slot(slot, slot + (dim.extent - 1) * dim.stride);
    const auto axis = static_cast<std::size_t>(dim.axis);
    std::int64_t offset = 0;
    if (!inside(axis, offset)) return visit_(Run{0, 0, slot, dim.stride, dim.extent, false});
    const auto [low, high] = inside_range(dim, (*t_.shape)[axis], index_[axis]);
    if (!t_.has_fill && (low > 0 || high < dim.extent)) {
      fail_outside_tensor(t_, axis, low > 0 ? index_[axis] : index_[axis] + high * dim.step);
    }
    const std::int64_t stride = dim.step * (*t_.strides)[axis];
    if (low > 0) visit_(Run{0, 0, slot, dim.stride, low, false});
    if (high > low) {
      visit_(Run{offset + low * stride, stride, slot + low * dim.stride, dim.stride, high - low, true});
    }
    if (high < dim.extent) visit_(Run{0, 0, slot + high * dim.stride, dim.stride, dim.extent - high, false});
  }

  /// The steps [low, high) of the dim whose index is within an axis of extent `size`.
  static std::pair<std::int64_t, std::int64_t> inside_range(const ResolvedTransfer::Dim& dim, std::int64_t size,
                                                            std::int64_t start) {
    std::int64_t low = 0, high = dim.extent;
    if (dim.step > 0) {
      if (start < 0) low = std::min(dim.extent, ceil_div(-start, dim.step));
      high = start >= size ? 0 : std::min(dim.extent, (size - 1 - start) / dim.step + 1);
    } else if (dim.step < 0) {
      if (start >= size) low = std::min(dim.extent, (start - size) / -dim.step + 1);
      high = start < 0 ? 0 : std::min(dim.extent, start / -dim.step + 1);
    } else if (start < 0 || start >= size) {
      high = 0;
    }
    return {low, std::max(low, high)};
  }

  const ResolvedTransfer& t_;
  Visit& visit_;
  std::vector<std::int64_t> index_;
};

template <class Visit>
void for_each_run(const ResolvedTransfer& transfer, Visit visit) {
  RunWalker<Visit>(transfer, visit).walk();
}

}  // namespace tilesim::program
