#include "tilesim/tile/strided.hpp"

#include <cstring>

namespace tilesim {

namespace {
constexpr std::int64_t chunk = 512;

/// Calls `copy` with an unsigned word of `size` bytes.
template <class Copy>
void with_word(int size, const Copy& copy) {
  if (size == 4)
    copy(std::uint32_t{});
  else if (size == 2)
    copy(std::uint16_t{});
  else if (size == 1)
    copy(std::uint8_t{});
  else
    copy(std::uint64_t{});
}

void gather(const std::byte* data, int size, std::int64_t stride, std::int64_t count, std::byte* to) {
  const auto copy = [&]<class U>(U) {
    for (std::int64_t i = 0; i < count; ++i) reinterpret_cast<U*>(to)[i] = reinterpret_cast<const U*>(data)[i * stride];
  };
  with_word(size, copy);
}

void scatter(const std::byte* from, int size, std::byte* data, std::int64_t stride, std::int64_t count) {
  const auto copy = [&]<class U>(U) {
    for (std::int64_t i = 0; i < count; ++i)
      reinterpret_cast<U*>(data)[i * stride] = reinterpret_cast<const U*>(from)[i];
  };
  with_word(size, copy);
}

}  // namespace

template <class T>
void read_run(const std::byte* data, DType dtype, std::int64_t stride, std::int64_t count, T* to) {
  const int size = host_bytes(dtype);
  if (stride == 1) return convert(data, dtype, to, compute_dtype<T>(), count);
  if (stride == 0) {
    convert(data, dtype, to, compute_dtype<T>(), 1);
    for (std::int64_t i = 1; i < count; ++i) to[i] = to[0];
    return;
  }
  std::byte block[chunk * 8];
  for (std::int64_t done = 0; done < count; done += chunk) {
    const std::int64_t part = std::min(chunk, count - done);
    gather(data + done * stride * size, size, stride, part, block);
    convert(block, dtype, to + done, compute_dtype<T>(), part);
  }
}

template <class T>
void write_run(const T* from, std::byte* data, DType dtype, std::int64_t stride, std::int64_t count) {
  const int size = host_bytes(dtype);
  if (stride == 1) return convert(from, compute_dtype<T>(), data, dtype, count);
  std::byte block[chunk * 8];
  for (std::int64_t done = 0; done < count; done += chunk) {
    const std::int64_t part = std::min(chunk, count - done);
    convert(from + done, compute_dtype<T>(), block, dtype, part);
    scatter(block, size, data + done * stride * size, stride, part);
  }
}

template void read_run(const std::byte*, DType, std::int64_t, std::int64_t, float*);
template void read_run(const std::byte*, DType, std::int64_t, std::int64_t, double*);
template void read_run(const std::byte*, DType, std::int64_t, std::int64_t, std::int64_t*);
template void write_run(const float*, std::byte*, DType, std::int64_t, std::int64_t);
template void write_run(const double*, std::byte*, DType, std::int64_t, std::int64_t);
template void write_run(const std::int64_t*, std::byte*, DType, std::int64_t, std::int64_t);

}  // namespace tilesim
