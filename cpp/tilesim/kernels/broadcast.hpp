// Reads an operand in the linear order of a result that it broadcasts to. Internal to this module.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tilesim/base/shape.hpp"

namespace tilesim::kernels {

template <class T>
class BroadcastReader {
 public:
  static constexpr std::int64_t chunk = 2048;

  BroadcastReader(const T* data, const Shape& from, const Shape& to) : data_(data) {
    const Shape strides = row_major_strides(from);
    const std::size_t lead = to.size() - from.size();
    for (std::size_t axis = 0; axis < to.size(); ++axis) {
      if (to[axis] == 1) continue;
      const std::int64_t stride = axis < lead || from[axis - lead] == 1 ? 0 : strides[axis - lead];
      if (!loops_.empty() && loops_.back().stride == stride * to[axis]) {
        loops_.back() = {loops_.back().extent * to[axis], stride};
      } else {
        loops_.push_back({to[axis], stride});
      }
    }
    if (loops_.empty()) loops_.push_back({1, 0});
    contiguous_ = loops_.size() == 1 && loops_[0].stride == 1;
    if (!contiguous_) buffer_.resize(static_cast<std::size_t>(chunk));
    constant_ = loops_.size() == 1 && loops_[0].stride == 0;
    if (constant_ && data_ != nullptr) std::fill(buffer_.begin(), buffer_.end(), *data_);
  }

  /// Elements [begin, begin + count), count <= chunk; valid until the next call.
  const T* read(std::int64_t begin, std::int64_t count) {
    if (contiguous_) return data_ + begin;
    if (constant_) return buffer_.data();
    const Loop inner = loops_.back();
    for (std::int64_t done = 0; done < count;) {
      const std::int64_t column = (begin + done) % inner.extent;
      const std::int64_t length = std::min(inner.extent - column, count - done);
      const T* row = data_ + row_offset((begin + done) / inner.extent) + column * inner.stride;
      T* out = buffer_.data() + done;
      if (inner.stride == 0) {
        std::fill_n(out, length, *row);
      } else {
        for (std::int64_t i = 0; i < length; ++i) out[i] = row[i * inner.stride];
      }
      done += length;
    }
    return buffer_.data();
  }

 private:
  struct Loop { std::int64_t extent, stride; };

  std::int64_t row_offset(std::int64_t row) const {
    std::int64_t offset = 0;
    for (std::size_t i = loops_.size() - 1; i-- > 0;) {
      offset += row % loops_[i].extent * loops_[i].stride;
      row /= loops_[i].extent;
    }
    return offset;
  }

  const T* data_;
  std::vector<Loop> loops_;
  std::vector<T> buffer_;
  bool contiguous_ = false, constant_ = false;
};

}  // namespace tilesim::kernels
