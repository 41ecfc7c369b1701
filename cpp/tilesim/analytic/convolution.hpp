// Closed-form time of square convolutions: as an implicit product, or with Winograd's transforms.
//
// Direct: a product of [images x outputs, channels x taps] by [channels x taps, filters]. Winograd F(2x2) and F(4x4),
// for 3 by 3 kernels with stride 1: 16 or 36 products over blocks of 2x2 or 4x4 outputs; the transforms move input and
// output through memory once more. The model assumes that the library chooses the fastest algorithm.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "tilesim/analytic/constants.hpp"
#include "tilesim/analytic/gemm.hpp"

namespace tilesim::analytic {

/// Constants in addition to those of products. X(name, default, lowest, highest, unit)
#define TILESIM_CONVOLUTION_CONSTANTS(X)                                         \
  X(taps_share, 0.9, 0.05, 1.0, "rate of an implicit product over a plain one")  \
  X(winograd, 1.3, 1.0, 8.0, "time of the transformed products over plain ones") \
  X(transforms, 5e-5, 1e-7, 1e-3, "s for the further kernels of Winograd")       \
  X(transform, 1.0, 0.05, 8.0, "passes over the transformed tensors")            \
  X(layout, 0.2, 0.001, 4.0, "passes over input and output to change layouts")

struct ConvolutionConstants { TILESIM_CONSTANT_FIELDS(TILESIM_CONVOLUTION_CONSTANTS) };
std::span<const ConstantInfo<ConvolutionConstants>> convolution_constants();

struct ConvolutionCase {
  double batch, channels, filters, size, kernel, stride, padding;

  double outputs() const;  ///< outputs per axis; at most 0 if the kernel exceeds the padded input
};

enum class ConvolutionTerm : std::uint8_t { direct, winograd2, winograd4, layout, total };
inline constexpr std::size_t convolution_term_count = 5;
/// Seconds of each algorithm (infinite if not applicable), of layout changes, and of the fastest algorithm including
/// its layout changes.
using ConvolutionTerms = std::array<double, convolution_term_count>;
std::span<const std::string_view> convolution_term_names();

struct ConvolutionModel {
  GemmModel direct, plain;      ///< implicit product (at its share of the rate); other products
  double bytes_per_second = 1;  ///< memory bandwidth of transforms and layout changes
  ConvolutionConstants constants;

  ConvolutionTerms predict(const ConvolutionCase& shape) const;
};

}  // namespace tilesim::analytic
