#include "tilesim/program/transfer.hpp"

#include <algorithm>
#include <cstring>

#include "tilesim/base/error.hpp"

namespace tilesim::program {

namespace {

[[noreturn]] void outside(const ResolvedTransfer& t, std::size_t axis, std::int64_t index) {
  throw UserError({"a transfer leaves its tensor", t.place,
                   "index " + std::to_string(index) + " of axis " + std::to_string(axis),
                   "0 to " + std::to_string(t.tensor.shape()[axis] - 1), "give a fill value if that is meant"});
}

/// Walks the block; the innermost dim is handled as a run: `run(tensor offset, tensor stride, slot offset, slot stride,
/// count, inside)`.
template <class Run>
class Walker {
 public:
  Walker(const ResolvedTransfer& t, Run run) : t_(t), run_(run), index_(t.at) {
    for (const auto& dim : t.dims) empty_ |= dim.extent <= 0;
  }
  void walk() {
    if (!empty_) level(0, t_.slot_offset);
  }

 private:
  void level(std::size_t depth, std::int64_t slot) {
    if (depth == t_.dims.size()) return point(slot);
    const auto& dim = t_.dims[depth];
    if (depth + 1 == t_.dims.size() && dim.rows.empty()) return innermost(dim, slot);
    const std::int64_t before = dim.axis >= 0 ? index_[static_cast<std::size_t>(dim.axis)] : 0;
    for (std::int64_t i = 0; i < dim.extent; ++i) {
      if (dim.axis >= 0)
        index_[static_cast<std::size_t>(dim.axis)] =
            before + (dim.rows.empty() ? i * dim.step : dim.rows[static_cast<std::size_t>(i)]);
      level(depth + 1, slot + i * dim.stride);
    }
    if (dim.axis >= 0) index_[static_cast<std::size_t>(dim.axis)] = before;
  }

  bool inside(std::size_t except, std::int64_t& offset) const {
    offset = 0;
    for (std::size_t axis = 0; axis < index_.size(); ++axis) {
      if (axis != except && (index_[axis] < 0 || index_[axis] >= t_.tensor.shape()[axis])) {
        if (!t_.has_fill) outside(t_, axis, index_[axis]);
        return false;
      }
      offset += index_[axis] * t_.strides[axis];
    }
    return true;
  }

  void check_slot(std::int64_t first, std::int64_t last) const {
    if (std::min(first, last) < 0 || std::max(first, last) >= t_.slot_elements)
      throw UserError({"a transfer leaves its slot",
                       t_.place,
                       "element " + std::to_string(first) + " to " + std::to_string(last),
                       "0 to " + std::to_string(t_.slot_elements - 1),
                       {}});
  }

  void point(std::int64_t slot) {
    check_slot(slot, slot);
    std::int64_t offset = 0;
    const bool in = inside(static_cast<std::size_t>(-1), offset);
    run_(offset, 0, slot, 0, 1, in);
  }

  void innermost(const ResolvedTransfer::Dim& dim, std::int64_t slot) {
    check_slot(slot, slot + (dim.extent - 1) * dim.stride);
    std::int64_t offset = 0;
    if (dim.axis < 0) {
      const bool in = inside(static_cast<std::size_t>(-1), offset);
      return run_(offset, 0, slot, dim.stride, dim.extent, in);
    }
    const auto axis = static_cast<std::size_t>(dim.axis);
    if (!inside(axis, offset)) return run_(0, 0, slot, dim.stride, dim.extent, false);
    // Elements [low, high) of the run lie inside the tensor.
    const std::int64_t size = t_.tensor.shape()[axis], start = index_[axis];
    std::int64_t low = 0, high = dim.extent;
    if (dim.step > 0) {
      low = start < 0 ? std::min(dim.extent, (-start + dim.step - 1) / dim.step) : 0;
      high = start >= size ? 0 : std::min(dim.extent, (size - 1 - start) / dim.step + 1);
    } else if (dim.step < 0) {
      low = start >= size ? std::min(dim.extent, (start - size) / -dim.step + 1) : 0;
      high = start < 0 ? 0 : std::min(dim.extent, start / -dim.step + 1);
    } else if (start < 0 || start >= size) {
      high = 0;
    }
    high = std::max(low, high);
    if (!t_.has_fill && (low > 0 || high < dim.extent)) outside(t_, axis, low > 0 ? start : start + high * dim.step);
    const std::int64_t stride = dim.step * t_.strides[axis];
    if (low > 0) run_(0, 0, slot, dim.stride, low, false);
    if (high > low) run_(offset + low * stride, stride, slot + low * dim.stride, dim.stride, high - low, true);
    if (high < dim.extent) run_(0, 0, slot + high * dim.stride, dim.stride, dim.extent - high, false);
  }

  const ResolvedTransfer& t_;
  Run run_;
  std::vector<std::int64_t> index_;
  bool empty_ = false;
};

void copy_run(const std::byte* from, std::int64_t from_stride, std::byte* to, std::int64_t to_stride,
              std::int64_t count, int size) {
  if (from_stride == 1 && to_stride == 1) {
    std::memcpy(to, from, static_cast<std::size_t>(count * size));
    return;
  }
  const auto copy = [&]<class U>(U) {
    const U* source = reinterpret_cast<const U*>(from);
    U* target = reinterpret_cast<U*>(to);
    for (std::int64_t i = 0; i < count; ++i) target[i * to_stride] = source[i * from_stride];
  };
  if (size == 4)
    copy(std::uint32_t{});
  else if (size == 2)
    copy(std::uint16_t{});
  else if (size == 1)
    copy(std::uint8_t{});
  else
    copy(std::uint64_t{});
}

}  // namespace

void load_block(const ResolvedTransfer& t, std::byte* slot) {
  const int size = host_bytes(t.slot_dtype);
  std::byte fill[8] = {};
  convert(&t.fill, DType::f64, fill, t.slot_dtype, 1, Rounding::nearest_even, Overflow::saturate);
  if (is_float(t.slot_dtype)) convert(&t.fill, DType::f64, fill, t.slot_dtype, 1);
  const std::byte* tensor = t.tensor.bytes();
  const auto run = [&](std::int64_t offset, std::int64_t stride, std::int64_t at, std::int64_t slot_stride,
                       std::int64_t count, bool inside) {
    if (inside)
      copy_run(tensor + offset * size, stride, slot + at * size, slot_stride, count, size);
    else
      copy_run(fill, 0, slot + at * size, slot_stride, count, size);
  };
  Walker(t, run).walk();
}

void store_block(const ResolvedTransfer& t, const std::byte* slot) {
  const int size = host_bytes(t.slot_dtype);
  std::byte* tensor = const_cast<std::byte*>(t.tensor.bytes());
  const auto run = [&](std::int64_t offset, std::int64_t stride, std::int64_t at, std::int64_t slot_stride,
                       std::int64_t count, bool inside) {
    if (inside) copy_run(slot + at * size, slot_stride, tensor + offset * size, stride, count, size);
  };
  Walker(t, run).walk();
}

}  // namespace tilesim::program
