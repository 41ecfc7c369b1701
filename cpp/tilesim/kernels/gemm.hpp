// Matrix products and the rules for their compute types. Internal to this module.
#pragma once

#include <cstdint>

#include "tilesim/kernels/kernel.hpp"

namespace tilesim::kernels {

/// c[m, n] += a[m, k] * b[k, n], row-major without gaps between rows; `b_transposed`: b is stored as [n, k].
struct GemmShape {
  std::int64_t m = 0, n = 0, k = 0;
  bool b_transposed = false;
};
void gemm(const Call& call, const GemmShape& shape, const float* a, const float* b, float* c);
void gemm(const Call& call, const GemmShape& shape, const double* a, const double* b, double* c);
/// Unsigned so that overflow wraps.
void gemm(const Call& call, const GemmShape& shape, const std::uint32_t* a, const std::uint32_t* b, std::uint32_t* c);
void gemm(const Call& call, const GemmShape& shape, const std::uint64_t* a, const std::uint64_t* b, std::uint64_t* c);

/// The accumulation type of products of `a` and `b` with result `result`: f32, f64, i32 or i64.
DType accumulator(const Call& call, DType a, DType b, DType result);
/// A product's operand in the accumulator's type, first rounded as in `numerics`.
Array product_operand(const Call& call, const Array& x, DType accumulator);
/// Calls f with a value of the scalar type of an accumulator (unsigned for integers).
template <class F>
decltype(auto) with_accumulator(DType accumulator, F&& f) {
  if (accumulator == DType::f32) return f(float{});
  if (accumulator == DType::f64) return f(double{});
  if (accumulator == DType::i32) return f(std::uint32_t{});
  return f(std::uint64_t{});
}
/// Sum of accumulator and bias (broadcast to its shape), rounded once to `type`. Integer sums with a float bias
/// continue in f32 (f64 where the bias or the result is f64).
Array add_bias(const Call& call, Array sum, const Array* bias, const TensorType& type);

}  // namespace tilesim::kernels
