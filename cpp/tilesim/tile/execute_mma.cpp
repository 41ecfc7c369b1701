// Executes mma: packs strided operands, multiplies them with Eigen, and adds to the accumulator's view.
#include <Eigen/Core>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "tilesim/base/error.hpp"
#include "tilesim/tile/strided.hpp"

namespace tilesim {

namespace {

using Dims = std::vector<ViewDim>;

std::int64_t count(const Dims& dims) {
  std::int64_t n = 1;
  for (const ViewDim& dim : dims) n *= std::max<std::int64_t>(0, dim.extent);
  return n;
}

Dims part(const Dims& dims, int first, int size) { return Dims(dims.begin() + first, dims.begin() + first + size); }

/// Packs rows x columns of a view as a dense row-major matrix.
template <class T>
void pack(const std::byte* data, DType dtype, const Dims& rows, const Dims& columns, T* to) {
  Dims outer = rows;
  outer.insert(outer.end(), columns.begin(), columns.end());
  if (outer.empty()) outer.push_back({1, 0});
  const ViewDim inner = outer.back();
  outer.pop_back();
  for_each_offset(outer.data(), outer.size(), [&](std::int64_t offset) {
    read_run(data + offset * host_bytes(dtype), dtype, inner.stride, inner.extent, to);
    to += inner.extent;
  });
}

/// The same for a view of a 2:4 type, whose innermost contracted dim counts the positions of an element: expands
/// elements, including zeros.
template <class T>
void pack_pattern(const std::byte* data, DType dtype, Dims rows, const Dims& columns, T* to) {
  rows.pop_back();
  const std::int64_t width = count(columns), values = pattern_values, each = pattern_neighbours / 2;
  const auto bytes = static_cast<std::int64_t>(host_bytes(dtype));
  for_each_offset(rows.data(), rows.size(), [&](std::int64_t from) {
    std::fill_n(to, pattern_neighbours * width, T{});
    std::int64_t column = 0;
    for_each_offset(columns.data(), columns.size(), [&](std::int64_t offset) {
      const std::byte* element = data + (from + offset) * bytes;
      alignas(8) std::byte aligned[pattern_values * 8];
      std::memcpy(aligned, element, static_cast<std::size_t>(bytes) - 1);
      T kept[pattern_values];
      read_run(aligned, plain_of(dtype), 1, values, kept);
      const auto places = static_cast<unsigned>(element[bytes - 1]);
      for (std::int64_t i = 0; i < values; ++i) to[(i / 2 * each + (places >> (2 * i) & 3)) * width + column] = kept[i];
      ++column;
    });
    to += pattern_neighbours * width;
  });
}

template <class T>
void unpack(const T* from, std::byte* data, DType dtype, const Dims& rows, const Dims& columns) {
  Dims outer = rows;
  outer.insert(outer.end(), columns.begin(), columns.end());
  if (outer.empty()) outer.push_back({1, 0});
  const ViewDim inner = outer.back();
  outer.pop_back();
  for_each_offset(outer.data(), outer.size(), [&](std::int64_t offset) {
    write_run(from, data + offset * host_bytes(dtype), dtype, inner.stride, inner.extent);
    from += inner.extent;
  });
}

void round_operand(float* values, std::int64_t n, DType dtype, const Numerics& numerics) {
  if (numerics.multiply_tf32)
    tf32_round(values, n);
  else if (rounds_operands(numerics, dtype))
    round_through(values, n, *numerics.multiply);
}
void round_operand(double*, std::int64_t, DType, const Numerics&) {}
void round_operand(std::int64_t*, std::int64_t, DType, const Numerics&) {}

template <class T>
void run(const Mma& op) {
  using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Dims batch = part(op.a.dims, 0, op.batch_dims), rows = part(op.a.dims, op.batch_dims, op.m_dims);
  const Dims inner = part(op.a.dims, op.batch_dims + op.m_dims, op.k_dims);
  const Dims b_batch = part(op.b.dims, 0, op.batch_dims), b_inner = part(op.b.dims, op.batch_dims, op.k_dims),
             columns = part(op.b.dims, op.batch_dims + op.k_dims, op.n_dims);
  const Dims c_batch = part(op.c.dims, 0, op.batch_dims), c_rows = part(op.c.dims, op.batch_dims, op.m_dims),
             c_columns = part(op.c.dims, op.batch_dims + op.m_dims, op.n_dims);
  const std::int64_t m = count(rows), n = count(columns), k = count(inner);
  if (m == 0 || n == 0) return;
  Matrix a(m, k), b(k, n), c(m, n);
  std::vector<std::int64_t> a_at, b_at, c_at;
  for_each_offset(batch.data(), batch.size(), [&](std::int64_t offset) { a_at.push_back(offset); });
  for_each_offset(b_batch.data(), b_batch.size(), [&](std::int64_t offset) { b_at.push_back(offset); });
  for_each_offset(c_batch.data(), c_batch.size(), [&](std::int64_t offset) { c_at.push_back(offset); });
  for (std::size_t i = 0; i < a_at.size(); ++i) {
    pack(op.a.data + a_at[i] * host_bytes(op.a.dtype), op.a.dtype, rows, inner, a.data());
    const std::byte* weights = op.b.data + b_at[i] * host_bytes(op.b.dtype);
    if (is_two_of_four(op.b.dtype))
      pack_pattern(weights, op.b.dtype, b_inner, columns, b.data());
    else
      pack(weights, op.b.dtype, b_inner, columns, b.data());
    round_operand(a.data(), m * k, op.a.dtype, op.numerics);
    round_operand(b.data(), k * n, plain_of(op.b.dtype), op.numerics);
    std::byte* target = op.c.data + c_at[i] * host_bytes(op.c.dtype);
    if (op.accumulate) {
      pack(target, op.c.dtype, c_rows, c_columns, c.data());
      c.noalias() += a * b;
    } else {
      c.noalias() = a * b;
      if constexpr (!std::is_integral_v<T>) c.array() += T(0);  // sums begin at 0: terms that are all -0 give 0
    }
    unpack(c.data(), target, op.c.dtype, c_rows, c_columns);
  }
}

}  // namespace

void execute(const Mma& mma) {
  if (!is_float(mma.a.dtype))
    run<std::int64_t>(mma);
  else if (mma.a.dtype == DType::f64 || mma.c.dtype == DType::f64)
    run<double>(mma);
  else
    run<float>(mma);
}

}  // namespace tilesim
