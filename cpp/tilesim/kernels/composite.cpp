// softmax, normalize and batch_norm, written from their definitions and not from their expansions.
// Rows are computed in double (for f64 as for narrower floats) and rounded once.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tilesim/base/index.hpp"
#include "tilesim/kernels/kernel.hpp"

namespace tilesim::kernels {
namespace {

using Axes = std::vector<std::int64_t>;

/// Largest element; NaN wins. -inf for no elements.
template <class T>
T row_maximum(const T* x, std::int64_t count, std::int64_t stride) {
  T best = -std::numeric_limits<T>::infinity();
  for (std::int64_t i = 0; i < count; ++i) {
    const T value = x[i * stride];
    if (value != value) return value;
    best = std::max(best, value);
  }
  return best;
}

/// One row. All -inf, or any +inf or NaN, gives NaN, as in torch.
template <class T>
void softmax_row(const T* x, T* y, std::int64_t count, std::int64_t stride, bool logarithm) {
  const double shift = row_maximum(x, count, stride);
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += std::exp(x[i * stride] - shift);
  const double log_sum = std::log(sum);
  for (std::int64_t i = 0; i < count; ++i) {
    const double shifted = x[i * stride] - shift;
    y[i * stride] = static_cast<T>(logarithm ? shifted - log_sum : std::exp(shifted) / sum);
  }
}

struct Moments { double mean = 0, rstd = 0; };
/// Mean and 1 / sqrt(variance + epsilon), in two passes; rms: mean 0, so the variance is the mean square.
template <class T>
Moments moments(const T* x, std::int64_t count, double epsilon, bool rms) {
  Moments result;
  if (!rms) result.mean = std::accumulate(x, x + count, 0.0) / static_cast<double>(count);
  double squares = 0;
  for (std::int64_t i = 0; i < count; ++i) squares += (x[i] - result.mean) * (x[i] - result.mean);
  result.rstd = 1 / std::sqrt(squares / static_cast<double>(count) + epsilon);
  return result;
}

/// View of normalize's operand: `order` moves the normalized axes last; rows of `row` elements share their moments.
struct Layout {
  Axes order;
  std::int64_t rows = 1, row = 1;
  bool per_channel = false;  ///< scale and bias are [C] (group, instance); else they have the shape of a row
  std::int64_t row_channels = 1, channels = 1;  ///< channels within a row, and in all
};
Layout layout_of(const Call& call, const Shape& shape) {
  const std::string mode = call.attributes().text("mode", "layer");
  const auto rank = static_cast<std::int64_t>(shape.size());
  Layout layout;
  layout.order.resize(shape.size());
  std::iota(layout.order.begin(), layout.order.end(), 0);
  if (mode == "layer" || mode == "rms") {
    const Axes dims = call.attributes().integers("dims", {rank - 1});
    std::ranges::stable_partition(layout.order, [&](std::int64_t axis) { return std::ranges::count(dims, axis) == 0; });
    std::copy(dims.begin(), dims.end(), layout.order.end() - static_cast<std::ptrdiff_t>(dims.size()));
    for (std::int64_t axis = 0; axis < rank; ++axis) {
      (std::ranges::count(dims, axis) == 0 ? layout.rows : layout.row) *= shape[at(axis)];
    }
    return layout;
  }
  layout.per_channel = true;
  layout.channels = shape[1];
  const std::int64_t groups = mode == "instance" ? shape[1] : call.attributes().integer("groups", 1);
  layout.row_channels = groups == 0 ? 0 : shape[1] / groups;
  layout.rows = shape[0] * groups;
  layout.row = layout.row_channels;
  for (std::int64_t axis = 2; axis < rank; ++axis) layout.row *= shape[at(axis)];
  return layout;
}

Axes inverse(const Axes& permutation) {
  Axes result(permutation.size());
  for (std::size_t i = 0; i < permutation.size(); ++i) result[at(permutation[i])] = static_cast<std::int64_t>(i);
  return result;
}

/// Scale or bias as doubles, or `neutral` where absent.
std::vector<double> parameter(const Call& call, std::size_t index, std::int64_t count, double neutral) {
  if (!call.has(index)) return std::vector<double>(at(count), neutral);
  const Array wide = call.operand(index).to(DType::f64);
  return {wide.as<double>(), wide.as<double>() + wide.size()};
}

}  // namespace

Results softmax(const Call& call) {
  const Array& x = call.operand(0);
  const Compute compute = compute_type(call, x.dtype());
  if (compute == Compute::i64) call.unsupported("softmax of integers");
  const AxisView view = axis_view(x.shape(), call.attributes().integer("dim"));
  const Array in = x.to(dtype_of(compute));
  Array out(in.dtype(), x.shape());
  with_float(compute, [&](auto zero) {
    using T = decltype(zero);
    for (std::int64_t row = 0; row < view.outer * view.inner; ++row) {
      if (row % 1024 == 0) call.poll();
      const std::int64_t first = row / view.inner * view.extent * view.inner + row % view.inner;
      softmax_row(in.as<T>() + first, out.as<T>() + first, view.extent, view.inner, call.op.kind == Kind::log_softmax);
    }
  });
  return {out.to(call.result().dtype)};
}

Results normalize(const Call& call) {
  const Array& x = call.operand(0);
  const Compute compute = compute_type(call, x.dtype());
  if (compute == Compute::i64) call.unsupported("normalize of integers");
  const Layout layout = layout_of(call, x.shape());
  const double epsilon = call.attributes().number("epsilon", 1e-5);
  const bool rms = call.attributes().text("mode", "layer") == "rms";
  const std::int64_t parameters = layout.per_channel ? layout.channels : layout.row;
  const std::vector<double> scale = parameter(call, 1, parameters, 1), bias = parameter(call, 2, parameters, 0);
  const Array in = permuted(x.to(dtype_of(compute)), layout.order);
  Array out(in.dtype(), in.shape());
  Array mean(DType::f64, {layout.rows}), rstd(DType::f64, {layout.rows});
  const std::int64_t channel_size =
      layout.row_channels == 0 ? 1 : std::max<std::int64_t>(1, layout.row / layout.row_channels);
  with_float(compute, [&](auto zero) {
    using T = decltype(zero);
    for (std::int64_t row = 0; row < layout.rows; ++row) {
      if (row % 1024 == 0) call.poll();
      const T* from = in.as<T>() + row * layout.row;
      const Moments m = moments(from, layout.row, epsilon, rms);
      mean.as<double>()[row] = m.mean;
      rstd.as<double>()[row] = m.rstd;
      const std::int64_t first = layout.per_channel ? row * layout.row_channels % layout.channels : 0;
      for (std::int64_t i = 0; i < layout.row; ++i) {
        const std::size_t p = at(layout.per_channel ? first + i / channel_size : i);
        out.as<T>()[row * layout.row + i] = static_cast<T>((from[i] - m.mean) * m.rstd * scale[p] + bias[p]);
      }
    }
  });
  Results results{permuted(out, inverse(layout.order)).to(call.result().dtype)};
  for (std::size_t i = 1; i < call.op.results.size(); ++i) {
    const TensorType& type = call.result(i);
    results.push_back((i == 1 ? mean : rstd).to(type.dtype).reshaped(type.shape));
  }
  return results;
}

Results batch_norm(const Call& call) {
  const Array& x = call.operand(0);
  const Compute compute = compute_type(call, x.dtype());
  if (compute == Compute::i64) call.unsupported("batch_norm of integers");
  const AxisView view = axis_view(x.shape(), call.attributes().integer("feature_dim", 1));
  const double epsilon = call.attributes().number("epsilon", 1e-5);
  const std::vector<double> scale = parameter(call, 1, view.extent, 1), bias = parameter(call, 2, view.extent, 0);
  const std::vector<double> mean = parameter(call, 3, view.extent, 0), variance = parameter(call, 4, view.extent, 1);
  const Array in = x.to(dtype_of(compute));
  Array out(in.dtype(), x.shape());
  with_float(compute, [&](auto zero) {
    using T = decltype(zero);
    for (std::int64_t line = 0; line < view.outer * view.extent; ++line) {
      const std::size_t channel = at(line % view.extent);
      const double factor = scale[channel] / std::sqrt(variance[channel] + epsilon);
      const T* from = in.as<T>() + line * view.inner;
      T* to = out.as<T>() + line * view.inner;
      for (std::int64_t i = 0; i < view.inner; ++i)
        to[i] = static_cast<T>((from[i] - mean[channel]) * factor + bias[channel]);
    }
  });
  return {out.to(call.result().dtype)};
}

}  // namespace tilesim::kernels
