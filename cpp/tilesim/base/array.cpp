#include "tilesim/base/array.hpp"

#include <cstring>

#include "tilesim/base/error.hpp"

namespace tilesim {

Array::Array(DType dtype, Shape shape) : dtype_(dtype), shape_(std::move(shape)), size_(element_count(shape_)) {
  auto* buffer = new std::vector<std::byte>(static_cast<std::size_t>(std::max<std::int64_t>(1, nbytes())));
  keeper_ = std::shared_ptr<void>(buffer, [](void* pointer) { delete static_cast<std::vector<std::byte>*>(pointer); });
  data_ = buffer->data();
}

Array::Array(DType dtype, Shape shape, void* data, std::shared_ptr<void> keeper)
    : dtype_(dtype), shape_(std::move(shape)), size_(element_count(shape_)), data_(static_cast<std::byte*>(data)), keeper_(std::move(keeper)) {}

Array Array::reshaped(Shape shape) const {
  if (element_count(shape) != size_)
    throw UserError({"cannot reshape", {}, to_string(shape_) + " to " + to_string(shape), std::to_string(size_) + " elements", {}});
  Array result = *this;
  result.shape_ = std::move(shape);
  return result;
}

Array Array::clone() const {
  Array result(dtype_, shape_);
  if (nbytes() > 0) std::memcpy(result.data_, data_, static_cast<std::size_t>(nbytes()));
  return result;
}

Array Array::to(DType dtype) const {
  if (dtype == dtype_) return *this;
  Array result(dtype, shape_);
  convert(data_, dtype_, result.data_, dtype, size_);
  return result;
}

double Array::at(std::int64_t index) const {
  double value = 0;
  convert(data_ + index * host_bytes(dtype_), dtype_, &value, DType::f64, 1);
  return value;
}

std::int64_t Array::int_at(std::int64_t index) const {
  std::int64_t value = 0;
  convert(data_ + index * host_bytes(dtype_), dtype_, &value, DType::i64, 1);
  return value;
}

}  // namespace tilesim
