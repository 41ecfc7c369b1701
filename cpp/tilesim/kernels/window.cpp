// window_reduce, one axis after the other: the combiners are associative, and the sums in between are wide.
#include <algorithm>

#include "tilesim/kernels/combine.hpp"
#include "tilesim/kernels/kernel.hpp"

namespace tilesim::kernels {
namespace {

struct WindowAxis { std::int64_t size = 1, stride = 1, low = 0, dilation = 1, out = 0; };

template <class W, class Step>
void slide(const AxisView& view, const WindowAxis& axis, const W* x, W* y, W start, Step step) {
  std::fill_n(y, view.outer * axis.out * view.inner, start);
  for (std::int64_t outer = 0; outer < view.outer; ++outer) {
    for (std::int64_t tap = 0; tap < axis.size; ++tap) {
      // outputs whose tap lies inside: 0 <= o * stride + shift < extent
      const std::int64_t shift = tap * axis.dilation - axis.low;
      const std::int64_t begin = ceil_div(std::max<std::int64_t>(0, -shift), axis.stride);
      const std::int64_t end = std::min(axis.out, floor_div(view.extent - 1 - shift, axis.stride) + 1);
      const W* in = x + outer * view.extent * view.inner;
      W* out = y + outer * axis.out * view.inner;
      for (std::int64_t o = begin; o < end && view.inner == 1; ++o) out[o] = step(out[o], in[o * axis.stride + shift]);
      for (std::int64_t o = begin; o < end && view.inner != 1; ++o) {
        const W* from = in + (o * axis.stride + shift) * view.inner;
        W* to = out + o * view.inner;
        for (std::int64_t i = 0; i < view.inner; ++i) to[i] = step(to[i], from[i]);
      }
    }
  }
}

}  // namespace

Results window_reduce(const Call& call) {
  const Array& x = call.operand(0);
  const Attributes& attributes = call.attributes();
  const TensorType& type = call.result();
  const std::size_t rank = x.shape().size();
  const std::vector<std::int64_t> ones(rank, 1);
  const std::vector<std::int64_t>& window = attributes.integers("window");
  const std::vector<std::int64_t> strides = attributes.integers("strides", ones);
  const std::vector<std::int64_t> pads = attributes.integers("pads", std::vector<std::int64_t>(2 * rank, 0));
  const std::vector<std::int64_t> dilations = attributes.integers("window_dilation", ones);
  const Combiner combiner = parse_combiner(attributes.text("combiner"));
  const Compute compute = compute_type(call, x.dtype());
  const DType wide = compute == Compute::i64 ? DType::i64 : DType::f64;
  const bool flips = flips_u64(x.dtype(), combiner);

  const auto run = [&](auto zero) -> Results {
    using W = decltype(zero);
    const W start = start_value<W>(combiner, x.dtype());
    Array now = x.to(wide);
    if (flips) {
      now = now.clone();
      flip_u64(now.as<W>(), now.size());
    }
    for (std::size_t i = rank; i-- > 0;) {
      if (window[i] == 1 && strides[i] == 1 && pads[2 * i] == 0 && pads[2 * i + 1] == 0) continue;
      call.poll();
      const WindowAxis axis{window[i], strides[i], pads[2 * i], dilations[i], type.shape[i]};
      Shape shape = now.shape();
      shape[i] = axis.out;
      Array next(wide, shape);
      with_combiner<W>(combiner, [&](auto step) {
        slide(axis_view(now.shape(), static_cast<std::int64_t>(i)), axis, now.as<W>(), next.as<W>(), start, step);
      });
      now = next;
    }
    if (flips) {
      now = now.clone();
      flip_u64(now.as<W>(), now.size());
    }
    return {now.to(type.dtype)};
  };
  return compute == Compute::i64 ? run(std::int64_t{}) : run(double{});
}

}  // namespace tilesim::kernels
