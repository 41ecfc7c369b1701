// Parts that the kernels share: the call, compute types, strided copies. Internal to this module.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tilesim/kernels/kernels.hpp"

namespace tilesim::kernels {

/// One operation to evaluate. Absent optional operands are empty arrays; `has` distinguishes them from arrays without
/// elements.
struct Call {
  const Graph& graph;
  const GraphFunction& function;
  const Op& op;
  const std::vector<Array>& operands;
  const EvaluateOptions& options;

  const Array& operand(std::size_t index) const { return operands[index]; }
  bool has(std::size_t index) const { return index < op.operands.size() && op.operands[index] != no_value; }
  const TensorType& result(std::size_t index = 0) const { return function.value(op.results[index]).type; }
  const Attributes& attributes() const { return op.attributes; }
  void poll() const {
    if (options.cancel != nullptr) options.cancel->poll();
  }
  /// Throws UserError (or Unsupported) placed at this operation.
  [[noreturn]] void fail(const std::string& what, const std::string& value = {}, const std::string& allowed = {}) const;
  [[noreturn]] void unsupported(const std::string& what) const;
};
using Results = std::vector<Array>;

/// Every dtype is computed in one of three types: f32 (f32 and narrower floats), f64, i64 (integers, bool).
enum class Compute : std::uint8_t { f32, f64, i64 };
Compute compute_type(const Call& call, DType dtype);  ///< Unsupported for complex numbers
constexpr DType dtype_of(Compute compute) {
  return compute == Compute::f32 ? DType::f32 : compute == Compute::f64 ? DType::f64 : DType::i64;
}
/// Calls f(float{}), f(double{}) or f(std::int64_t{}).
template <class F>
decltype(auto) with_type(Compute compute, F&& f) {
  if (compute == Compute::f32) return f(float{});
  if (compute == Compute::f64) return f(double{});
  return f(std::int64_t{});
}
/// Calls f(float{}) or f(double{}); `compute` is not i64.
template <class F>
decltype(auto) with_float(Compute compute, F&& f) {
  if (compute == Compute::f64) return f(double{});
  return f(float{});
}

/// to[i] = from[i] over `extents` with strides in elements (any sign, 0 repeats); elements of `bytes` bytes (1, 2, 4,
/// 8 or 16).
void strided_copy(const Shape& extents, const std::byte* from, const Shape& from_strides, std::byte* to,
                  const Shape& to_strides, int bytes);
/// Axis i of the result is axis permutation[i] of `x`; returns `x` if no axis moves.
Array permuted(const Array& x, const std::vector<std::int64_t>& permutation);
/// numpy broadcasting to `shape`.
Array broadcasted(const Array& x, const Shape& shape);

/// A tensor seen as [outer, axis, inner].
struct AxisView { std::int64_t outer = 1, extent = 1, inner = 1; };
AxisView axis_view(const Shape& shape, std::int64_t axis);

Results contract(const Call& call);
Results ragged_contract(const Call& call);
Results rotary(const Call& call);
Results convolution(const Call& call);
Results elementwise(const Call& call);
Results convert(const Call& call);
Results bitcast(const Call& call);
Results reduce(const Call& call);
Results cumulative(const Call& call);
Results window_reduce(const Call& call);
Results gather(const Call& call);
Results embedding(const Call& call);
Results dynamic_slice(const Call& call);
Results dynamic_update(const Call& call);
Results reshape(const Call& call);
Results transpose(const Call& call);
Results broadcast(const Call& call);
Results slice(const Call& call);
Results reverse(const Call& call);
Results pad(const Call& call);
Results concat(const Call& call);
Results iota(const Call& call);
Results softmax(const Call& call);  ///< includes log_softmax
Results normalize(const Call& call);
Results batch_norm(const Call& call);
Results attention(const Call& call);
Results scatter(const Call& call);
Results window_scatter(const Call& call);
Results sort(const Call& call);
Results top_k(const Call& call);
Results linear_solve(const Call& call);
Results fft(const Call& call);
Results opaque(const Call& call);
Results while_loop(const Call& call);
Results branch(const Call& call);
Results collective(const Call& call);

/// Runs function number `index` of the operation.
Results run_callee(const Call& call, std::size_t index, const std::vector<Array>& inputs);

}  // namespace tilesim::kernels
