// Dense host tensors in row-major order. An Array owns its memory, or refers to memory that another object owns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "tilesim/base/dtype.hpp"
#include "tilesim/base/shape.hpp"

namespace tilesim {

class Array {
 public:
  Array() = default;
  /// Allocates zero-filled memory.
  Array(DType dtype, Shape shape);
  /// Refers to row-major `data` of at least host_bytes(dtype) * count bytes; `keeper` keeps the data alive.
  Array(DType dtype, Shape shape, void* data, std::shared_ptr<void> keeper);

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  std::int64_t size() const { return size_; }
  std::int64_t nbytes() const { return size_ * host_bytes(dtype_); }
  bool empty() const { return data_ == nullptr; }
  std::byte* bytes() { return data_; }
  const std::byte* bytes() const { return data_; }
  template <class T>
  T* as() {
    return reinterpret_cast<T*>(data_);
  }
  template <class T>
  const T* as() const {
    return reinterpret_cast<const T*>(data_);
  }
  /// An Array on the same memory, with another shape of the same element count.
  Array reshaped(Shape shape) const;
  /// Copies the elements into new memory.
  Array clone() const;
  /// A copy converted to `dtype`; *this if the dtype is already `dtype`.
  Array to(DType dtype) const;
  /// One element as a double or an integer. Slow: for scalars, tests and messages.
  double at(std::int64_t index) const;
  std::int64_t int_at(std::int64_t index) const;

 private:
  DType dtype_ = DType::f32;
  Shape shape_;
  std::int64_t size_ = 0;
  std::byte* data_ = nullptr;
  std::shared_ptr<void> keeper_;
};

}  // namespace tilesim
