#if defined(__GNUC__) && !defined(__clang__)
// False alarms in GCC 12's own AVX-512 headers (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#include "tilesim/kernels/gemm.hpp"

#include <Eigen/Core>
#include <algorithm>

namespace tilesim::kernels {
namespace {

template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class T>
using ConstMap = Eigen::Map<const Matrix<T>>;

/// Rows per step, so that a cancelled run stops within a fraction of a second.
std::int64_t rows_per_step(const GemmShape& shape) {
  const double row = 2.0 * static_cast<double>(shape.n) * static_cast<double>(shape.k) + 1;
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(1e9 / row), 1, shape.m);
}

template <class T>
void float_gemm(const Call& call, const GemmShape& shape, const T* a, const T* b, T* c) {
  if (shape.m == 0 || shape.n == 0 || shape.k == 0) return;
  const std::int64_t step = rows_per_step(shape);
  for (std::int64_t row = 0; row < shape.m; row += step) {
    call.poll();
    const std::int64_t rows = std::min(step, shape.m - row);
    const ConstMap<T> left(a + row * shape.k, rows, shape.k);
    Eigen::Map<Matrix<T>> out(c + row * shape.n, rows, shape.n);
    if (shape.b_transposed) {
      out.noalias() += left * ConstMap<T>(b, shape.n, shape.k).transpose();
    } else {
      out.noalias() += left * ConstMap<T>(b, shape.k, shape.n);
    }
  }
}

/// One block of columns and of k: the inner loop runs along the columns, four steps of k at a time.
template <class T>
void integer_block(const GemmShape& shape, const T* a, const T* b, T* c, std::int64_t column, std::int64_t columns,
                   std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = 0; i < shape.m; ++i) {
    T* out = c + i * shape.n + column;
    std::int64_t k = begin;
    for (; k + 4 <= end; k += 4) {
      const T* left = a + i * shape.k + k;
      const T* b0 = b + k * shape.n + column;
      const T *b1 = b0 + shape.n, *b2 = b1 + shape.n, *b3 = b2 + shape.n;
      for (std::int64_t j = 0; j < columns; ++j) {
        out[j] += left[0] * b0[j] + left[1] * b1[j] + left[2] * b2[j] + left[3] * b3[j];
      }
    }
    for (; k < end; ++k) {
      const T left = a[i * shape.k + k];
      const T* right = b + k * shape.n + column;
      for (std::int64_t j = 0; j < columns; ++j) out[j] += left * right[j];
    }
  }
}

template <class T>
void integer_gemm(const Call& call, const GemmShape& shape, const T* a, const T* b, T* c) {
  if (shape.b_transposed) {
    std::vector<T> plain(static_cast<std::size_t>(shape.k * shape.n));
    strided_copy({shape.k, shape.n}, reinterpret_cast<const std::byte*>(b), {1, shape.k},
                 reinterpret_cast<std::byte*>(plain.data()), {shape.n, 1}, static_cast<int>(sizeof(T)));
    GemmShape straight = shape;
    straight.b_transposed = false;
    integer_gemm(call, straight, a, plain.data(), c);
    return;
  }
  constexpr std::int64_t block_columns = 512, block_k = 64;
  for (std::int64_t column = 0; column < shape.n; column += block_columns) {
    for (std::int64_t k = 0; k < shape.k; k += block_k) {
      call.poll();
      integer_block(shape, a, b, c, column, std::min(block_columns, shape.n - column), k,
                    std::min(k + block_k, shape.k));
    }
  }
}

}  // namespace

void gemm(const Call& call, const GemmShape& shape, const float* a, const float* b, float* c) {
  float_gemm(call, shape, a, b, c);
}
void gemm(const Call& call, const GemmShape& shape, const double* a, const double* b, double* c) {
  float_gemm(call, shape, a, b, c);
}
void gemm(const Call& call, const GemmShape& shape, const std::uint32_t* a, const std::uint32_t* b, std::uint32_t* c) {
  integer_gemm(call, shape, a, b, c);
}
void gemm(const Call& call, const GemmShape& shape, const std::uint64_t* a, const std::uint64_t* b, std::uint64_t* c) {
  integer_gemm(call, shape, a, b, c);
}

namespace {

/// "exact" products do not follow the arrays.
Numerics numerics_of(const Call& call) {
  return call.attributes().text("precision", "default") == "exact" ? exact_numerics() : call.options.numerics;
}

}  // namespace

DType accumulator(const Call& call, DType a, DType b, DType result) {
  const bool floats = is_float(a) || is_float(b);
  for (const DType dtype : {a, b, result}) compute_type(call, dtype);
  if (floats) {
    const DType wanted = numerics_of(call).accumulate;
    if (wanted != DType::f32 && wanted != DType::f64) {
      call.unsupported("accumulating floats in " + std::string(name(wanted)));
    }
    const bool wide = wanted == DType::f64 || a == DType::f64 || b == DType::f64 || result == DType::f64;
    return wide ? DType::f64 : DType::f32;
  }
  const bool wide = bits(a) >= 32 || bits(b) >= 32 || (is_integer(result) && bits(result) == 64);
  return wide ? DType::i64 : DType::i32;
}

Array product_operand(const Call& call, const Array& x, DType accumulator) {
  const Numerics numerics = numerics_of(call);
  if (!is_float(x.dtype())) return x.to(accumulator);
  if (numerics.multiply_tf32 && (x.dtype() == DType::f32 || x.dtype() == DType::f64)) {
    Array rounded = x.dtype() == DType::f32 ? x.clone() : x.to(DType::f32);
    tf32_round(rounded.as<float>(), rounded.size());
    return rounded.to(accumulator);
  }
  if (rounds_operands(numerics, x.dtype())) {
    if (x.dtype() != DType::f32) return x.to(*numerics.multiply).to(accumulator);
    Array rounded = x.clone();
    round_through(rounded.as<float>(), rounded.size(), *numerics.multiply);
    return rounded.to(accumulator);
  }
  return x.to(accumulator);
}

Array add_bias(const Call& call, Array sum, const Array* bias, const TensorType& type) {
  if (bias != nullptr) {
    if (is_float(bias->dtype()) && !is_float(sum.dtype())) {
      const bool wide = bias->dtype() == DType::f64 || type.dtype == DType::f64;
      sum = sum.to(wide ? DType::f64 : DType::f32);
    }
    compute_type(call, bias->dtype());
    const Array wide = broadcasted(bias->to(sum.dtype()), sum.shape());
    with_accumulator(sum.dtype(), [&](auto zero) {
      using T = decltype(zero);
      T* out = sum.as<T>();
      const T* in = wide.as<T>();
      for (std::int64_t i = 0; i < sum.size(); ++i) out[i] += in[i];
    });
  }
  return sum.to(type.dtype);
}

}  // namespace tilesim::kernels
