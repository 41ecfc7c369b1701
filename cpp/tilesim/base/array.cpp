#include "tilesim/base/array.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "tilesim/base/error.hpp"
#include "tilesim/base/interrupt.hpp"
#include "tilesim/base/no_memory.hpp"

namespace tilesim {

namespace {

constexpr std::align_val_t alignment{64};  // a cache line, and the widest vector register

std::byte* allocated(DType dtype, const Shape& shape, std::size_t bytes) {
  void* memory = ::operator new(bytes, alignment, std::nothrow);
  if (memory == nullptr)
    throw OutOfMemory("no memory for a tensor of " + std::string(name(dtype)) + to_string(shape) + ", " +
                      std::to_string(bytes) + " bytes");
  return static_cast<std::byte*>(memory);
}

/// Calls `action(offset, bytes)` for pieces of a long range of memory; the call can be cancelled between pieces.
template <class Action>
void in_pieces(std::size_t bytes, Action action) {
  constexpr std::size_t piece = std::size_t{4} << 20;
  for (std::size_t done = 0; done < bytes; done += piece) {
    action(done, std::min(piece, bytes - done));
    worked(static_cast<std::int64_t>(std::min(piece, bytes - done) / 64));
  }
}

}  // namespace

Array::Array(DType dtype, Shape shape) : dtype_(dtype), shape_(std::move(shape)), size_(element_count(shape_)) {
  const auto bytes = static_cast<std::size_t>(std::max<std::int64_t>(1, nbytes()));
  data_ = allocated(dtype_, shape_, bytes);
  keeper_ = std::shared_ptr<void>(data_, [](void* pointer) { ::operator delete(pointer, alignment); });
  in_pieces(bytes, [&](std::size_t at, std::size_t count) { std::memset(data_ + at, 0, count); });
}

Array::Array(DType dtype, Shape shape, void* data, std::shared_ptr<void> keeper)
    : dtype_(dtype),
      shape_(std::move(shape)),
      size_(element_count(shape_)),
      data_(static_cast<std::byte*>(data)),
      keeper_(std::move(keeper)) {}

Array Array::reshaped(Shape shape) const {
  if (element_count(shape) != size_)
    throw UserError(
        {"cannot reshape", {}, to_string(shape_) + " to " + to_string(shape), std::to_string(size_) + " elements", {}});
  Array result = *this;
  result.shape_ = std::move(shape);
  return result;
}

Array Array::clone() const {
  if (empty()) return *this;
  Array result(dtype_, shape_);
  in_pieces(static_cast<std::size_t>(nbytes()),
            [&](std::size_t at, std::size_t count) { std::memcpy(result.data_ + at, data_ + at, count); });
  return result;
}

Array Array::to(DType dtype) const {
  if (dtype == dtype_ || empty()) return *this;
  Array result(dtype, shape_);
  constexpr std::int64_t piece = 1 << 20;  // elements: a whole number of bytes for every dtype
  for (std::int64_t done = 0; done < size_; done += piece) {
    const std::int64_t count = std::min(piece, size_ - done);
    convert(data_ + done * host_bytes(dtype_), dtype_, result.data_ + done * host_bytes(dtype), dtype, count);
    worked(count);
  }
  return result;
}

double Array::at(std::int64_t index) const {
  require(index >= 0 && index < size_, "an array is read outside its elements");
  double value = 0;
  convert(data_ + index * host_bytes(dtype_), dtype_, &value, DType::f64, 1);
  return value;
}

std::int64_t Array::int_at(std::int64_t index) const {
  require(index >= 0 && index < size_, "an array is read outside its elements");
  std::int64_t value = 0;
  convert(data_ + index * host_bytes(dtype_), dtype_, &value, DType::i64, 1);
  return value;
}

}  // namespace tilesim
