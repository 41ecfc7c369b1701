// How a Fourier transform of an extent is split into stages. Internal to this module.
#pragma once

#include <cstdint>
#include <vector>

#include "tilesim/machine/share.hpp"

namespace tilesim::lower {

struct FourierPlan {
  std::vector<std::int64_t> radices;  ///< factors of the extent, or of `circle`
  std::int64_t circle = 0;            ///< > 0: length of the circular convolution (Bluestein)
  double cycles = 0;                  ///< estimated cycles per element
};

/// `count`: number of elements of all transforms, which share the matrices.
FourierPlan plan_fourier(const Share& machine, std::int64_t extent, double count);

/// cos and sin of 2 pi numerator / denominator; exact if they are 0, 1 or -1.
struct Turn { double cos, sin; };
Turn turn(std::int64_t numerator, std::int64_t denominator, double sign);

/// In-place transform of a power-of-two number of elements, in f64.
void transform_exactly(std::vector<double>& re, std::vector<double>& im);

}  // namespace tilesim::lower
