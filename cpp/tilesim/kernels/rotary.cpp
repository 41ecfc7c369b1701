// rotary: rotates pairs of elements of the last axis by an angle; rounded once.
#include "tilesim/kernels/kernel.hpp"

namespace tilesim::kernels {

Results rotary(const Call& call) {
  const Array& x = call.operand(0);
  const Compute compute = compute_type(call, x.dtype());
  if (compute == Compute::i64) call.unsupported("rotary of integers");
  const Shape& shape = x.shape();
  const Array in = x.to(dtype_of(compute)), cosine = broadcasted(call.operand(1).to(in.dtype()), shape),
              sine = broadcasted(call.operand(2).to(in.dtype()), shape);
  const bool halves = call.attributes().text("style") == "halves";
  const std::int64_t width = shape.back(), half = width / 2;
  Array out(in.dtype(), shape);
  with_float(compute, [&](auto zero) {
    using T = decltype(zero);
    const T *from = in.as<T>(), *c = cosine.as<T>(), *s = sine.as<T>();
    for (std::int64_t i = 0; i < in.size(); ++i) {
      const std::int64_t d = i % width;
      const bool first = halves ? d < half : d % 2 == 0;
      const std::int64_t distance = halves ? half : 1;
      const T other = first ? -from[i + distance] : from[i - distance];
      out.as<T>()[i] = from[i] * c[i] + other * s[i];
    }
  });
  return {out.to(call.result().dtype)};
}

}  // namespace tilesim::kernels
