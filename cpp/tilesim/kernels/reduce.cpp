// reduce and cumulative. Floats accumulate in double, integers in i64 with wrap; one rounding to the result's dtype.
#include <algorithm>
#include <cmath>

#include "tilesim/base/index.hpp"
#include "tilesim/kernels/combine.hpp"
#include "tilesim/kernels/kernel.hpp"

namespace tilesim::kernels {
namespace {

using Axes = std::vector<std::int64_t>;

/// The operand with its reduced axes side by side, seen as [outer, reduced, inner].
struct Arranged {
  Array x;
  AxisView view;
};
Arranged arranged(const Array& x, Axes dims) {
  std::ranges::sort(dims);
  const bool adjacent = dims.empty() || dims.back() - dims.front() + 1 == static_cast<std::int64_t>(dims.size());
  Arranged result{x, {}};
  if (adjacent) {
    for (std::int64_t axis = 0; axis < static_cast<std::int64_t>(x.shape().size()); ++axis) {
      const std::int64_t extent = x.shape()[at(axis)];
      const bool before = dims.empty() || axis < dims.front();
      (before ? result.view.outer : axis <= dims.back() ? result.view.extent : result.view.inner) *= extent;
    }
    return result;
  }
  Axes order;
  for (std::int64_t axis = 0; axis < static_cast<std::int64_t>(x.shape().size()); ++axis) {
    const bool reduced = std::ranges::find(dims, axis) != dims.end();
    if (!reduced) order.push_back(axis);
    (reduced ? result.view.extent : result.view.outer) *= x.shape()[at(axis)];
  }
  order.insert(order.end(), dims.begin(), dims.end());
  result.x = permuted(x, order);
  return result;
}

template <class T, class Step>
void fold(const AxisView& view, const T* x, Wide<T>* out, Wide<T> start, Step step) {
  std::fill_n(out, view.outer * view.inner, start);
  for (std::int64_t outer = 0; outer < view.outer; ++outer) {
    Wide<T>* row = out + outer * view.inner;
    const T* in = x + outer * view.extent * view.inner;
    if (view.inner == 1) {
      Wide<T> sum = start;
      for (std::int64_t j = 0; j < view.extent; ++j) sum = step(sum, static_cast<Wide<T>>(in[j]));
      *row = sum;
      continue;
    }
    for (std::int64_t j = 0; j < view.extent; ++j) {
      for (std::int64_t i = 0; i < view.inner; ++i) row[i] = step(row[i], static_cast<Wide<T>>(in[j * view.inner + i]));
    }
  }
}

/// First index of the largest (smallest) element; the first NaN beats every number.
template <class T>
std::int64_t extreme_index(const T* x, std::int64_t count, std::int64_t stride, bool largest) {
  std::int64_t best = 0;
  for (std::int64_t i = 1; i < count; ++i) {
    const T value = x[i * stride], leader = x[best * stride];
    if (leader != leader) break;
    if (value != value || (largest ? value > leader : value < leader)) best = i;
  }
  return best;
}

Array reduce_index(const Call& call, const Arranged& in, Compute compute, bool largest) {
  const AxisView& view = in.view;
  if (view.extent == 0 && view.outer * view.inner > 0) call.fail("argmax and argmin of no elements have no value.");
  Array result(DType::i64, {view.outer * view.inner});
  Array wide = in.x.to(dtype_of(compute));
  if (in.x.dtype() == DType::u64) {
    wide = wide.clone();
    flip_u64(wide.as<std::int64_t>(), wide.size());
  }
  with_type(compute, [&](auto zero) {
    using T = decltype(zero);
    for (std::int64_t i = 0; i < result.size(); ++i) {
      const T* first = wide.as<T>() + i / view.inner * view.extent * view.inner + i % view.inner;
      result.as<std::int64_t>()[i] = extreme_index(first, view.extent, view.inner, largest);
    }
  });
  return result;
}

Array reduce_combine(const Arranged& in, Compute compute, Combiner combiner) {
  Array wide = in.x.to(dtype_of(compute));
  const bool flips = flips_u64(in.x.dtype(), combiner);
  if (flips) {
    wide = wide.clone();
    flip_u64(wide.as<std::int64_t>(), wide.size());
  }
  return with_type(compute, [&](auto zero) {
    using T = decltype(zero);
    Array result(compute == Compute::i64 ? DType::i64 : DType::f64, {in.view.outer * in.view.inner});
    Wide<T>* out = result.as<Wide<T>>();
    const Wide<T> start = start_value<Wide<T>>(combiner, in.x.dtype());
    with_combiner<Wide<T>>(combiner, [&](auto step) { fold(in.view, wide.as<T>(), out, start, step); });
    if (flips) flip_u64(out, result.size());
    return result;
  });
}

/// Sums to means: floats divide (0 / 0 is NaN), integers with an integer result truncate.
Array mean_of(const Call& call, Array sum, std::int64_t count, DType to) {
  if (!is_float(sum.dtype()) && is_float(to)) sum = sum.to(DType::f64);
  if (is_float(sum.dtype())) {
    for (std::int64_t i = 0; i < sum.size(); ++i) sum.as<double>()[i] /= static_cast<double>(count);
    return sum;
  }
  if (count == 0 && sum.size() > 0) call.fail("The integer mean of no elements has no value.");
  for (std::int64_t i = 0; i < sum.size(); ++i) sum.as<std::int64_t>()[i] /= count;
  return sum;
}

template <class T, class Step>
void scan(const AxisView& view, const T* x, Wide<T>* out, Wide<T> start, bool reverse, bool exclusive, Step step) {
  for (std::int64_t outer = 0; outer < view.outer; ++outer) {
    for (std::int64_t inner = 0; inner < view.inner; ++inner) {
      const std::int64_t base = outer * view.extent * view.inner + inner;
      Wide<T> sum = start;
      for (std::int64_t i = 0; i < view.extent; ++i) {
        const std::int64_t position = base + (reverse ? view.extent - 1 - i : i) * view.inner;
        const Wide<T> next = step(sum, static_cast<Wide<T>>(x[position]));
        out[position] = exclusive ? sum : next;
        sum = next;
      }
    }
  }
}

}  // namespace

Results reduce(const Call& call) {
  const Array& x = call.operand(0);
  const std::string& combiner = call.attributes().text("combiner");
  const TensorType& type = call.result();
  const Compute compute = compute_type(call, x.dtype());
  const Arranged in = arranged(x, call.attributes().integers("dims"));
  Array result;
  if (combiner == "argmax" || combiner == "argmin") {
    result = reduce_index(call, in, compute, combiner == "argmax");
  } else if (combiner == "mean") {
    result = mean_of(call, reduce_combine(in, compute, Combiner::add), in.view.extent, type.dtype);
  } else {
    result = reduce_combine(in, compute, parse_combiner(combiner));
  }
  return {result.to(type.dtype).reshaped(type.shape)};
}

Results cumulative(const Call& call) {
  const Array& x = call.operand(0);
  const Attributes& attributes = call.attributes();
  const TensorType& type = call.result();
  const Combiner combiner = parse_combiner(attributes.text("combiner"));
  const AxisView view = axis_view(x.shape(), attributes.integer("dim"));
  const Compute compute = compute_type(call, x.dtype());
  const bool flips = flips_u64(x.dtype(), combiner);
  Array wide = x.to(dtype_of(compute));
  if (flips) {
    wide = wide.clone();
    flip_u64(wide.as<std::int64_t>(), wide.size());
  }
  return with_type(compute, [&](auto zero) -> Results {
    using T = decltype(zero);
    Array result(compute == Compute::i64 ? DType::i64 : DType::f64, x.shape());
    Wide<T>* out = result.as<Wide<T>>();
    const Wide<T> start = start_value<Wide<T>>(combiner, x.dtype());
    with_combiner<Wide<T>>(combiner, [&](auto step) {
      scan(view, wide.as<T>(), out, start, attributes.flag("reverse"), attributes.flag("exclusive"), step);
    });
    if (flips) flip_u64(out, result.size());
    return {result.to(type.dtype)};
  });
}

}  // namespace tilesim::kernels
