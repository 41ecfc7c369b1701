#include "tilesim/validate/exact_sums.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace tilesim::validate {

namespace {

/// All numbers are multiples of 2^grid and at most `largest`; coarse: the grid is not too fine for exact sums.
struct Scale {
  int grid = std::numeric_limits<int>::max();
  double largest = 0;
  bool coarse = true;

  void take(double x) {
    if (x == 0) return;
    coarse = coarse && std::isfinite(x);
    if (!coarse) return;
    largest = std::max(largest, std::fabs(x));
    int exponent = 0;
    const auto digits = static_cast<std::int64_t>(std::ldexp(std::frexp(x, &exponent), 53));
    grid = std::min(grid, exponent - 53 + std::countr_zero(static_cast<std::uint64_t>(digits)));
  }
};

/// Stops at a number that is further from the grid than the digits of `type`.
Scale scale_of(const Array& array, DType type) {
  constexpr std::int64_t block = 1024;
  std::array<double, block> wide{};
  Scale scale;
  for (std::int64_t at = 0; at < array.size() && scale.coarse; at += block) {
    const std::int64_t count = std::min(block, array.size() - at);
    convert(array.bytes() + at * host_bytes(array.dtype()), array.dtype(), wide.data(), DType::f64, count);
    double before = std::numeric_limits<double>::quiet_NaN();
    for (std::int64_t i = 0; i < count; ++i) {
      if (wide[static_cast<std::size_t>(i)] == before) continue;
      before = wide[static_cast<std::size_t>(i)];
      scale.take(before);
    }
    scale.coarse =
        scale.coarse && (scale.largest == 0 || scale.largest * unit_roundoff(type) <= std::ldexp(1.0, scale.grid));
  }
  if (scale.largest == 0) scale.grid = 0;
  return scale;
}

}  // namespace

bool sums_exactly(const Array& a, const Array* b, std::int64_t n, const Array* added, DType type) {
  Scale sum = scale_of(a, type);
  if (b != nullptr && sum.coarse) {
    const Scale factor = scale_of(*b, type);
    sum.coarse = factor.coarse;
    sum.grid += factor.grid;
    sum.largest *= factor.largest;
  }
  sum.largest *= static_cast<double>(n);
  if (added != nullptr && !added->empty() && sum.coarse) {
    const Scale term = scale_of(*added, type);
    sum.coarse = term.coarse;
    sum.grid = std::min(sum.grid, term.grid);
    sum.largest += term.largest;
  }
  return sum.coarse && sum.largest * unit_roundoff(type) <= std::ldexp(1.0, sum.grid);
}

}  // namespace tilesim::validate
