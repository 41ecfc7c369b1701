#include "tilesim/analytic/convolution.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tilesim::analytic {

double ConvolutionCase::outputs() const { return std::floor((size + 2 * padding - kernel) / stride) + 1; }

ConvolutionTerms ConvolutionModel::predict(const ConvolutionCase& shape) const {
  const ConvolutionConstants& c = constants;
  const GemmScheme& scheme = plain.scheme;
  const double out = shape.outputs(), width = scheme.activation_bytes;
  const double inputs = shape.batch * shape.channels * (shape.size * shape.size) * width;
  const double outputs = shape.batch * shape.filters * (out * out) * scheme.output_bytes;
  const double layout = c.layout * (inputs + outputs) / bytes_per_second;
  ConvolutionTerms terms;
  terms.fill(std::numeric_limits<double>::infinity());
  terms[0] =
      direct.predict(1, shape.batch * (out * out), shape.filters, shape.channels * (shape.kernel * shape.kernel))[0];
  const bool fits = shape.kernel == 3 && shape.stride == 1 && width >= 4;
  for (std::size_t way = 1; way <= 2 && fits; ++way) {
    const double edge = way == 1 ? 2 : 4, side = std::ceil(out / edge);
    const double blocks = shape.batch * (side * side), points = (edge + 2) * (edge + 2);
    double moved = blocks * points * (shape.channels * width + shape.filters * scheme.output_bytes);
    moved += shape.channels * shape.filters * (9 + points) * scheme.weight_bytes;  // in every call
    const double products = plain.predict(points, blocks, shape.filters, shape.channels)[0];
    terms[way] = products * c.winograd + c.transform * moved / bytes_per_second + c.transforms;
  }
  terms[3] = layout;
  terms[4] = std::min({terms[0], terms[1], terms[2]}) + layout;
  return terms;
}

std::span<const ConstantInfo<ConvolutionConstants>> convolution_constants() {
  static const std::array table{
#define TILESIM_ROW(name, value, low, high, unit) \
  ConstantInfo<ConvolutionConstants>{#name, &ConvolutionConstants::name, value, low, high, unit},
      TILESIM_CONVOLUTION_CONSTANTS(TILESIM_ROW)
#undef TILESIM_ROW
  };
  return table;
}

std::span<const std::string_view> convolution_term_names() {
  static constexpr std::array<std::string_view, convolution_term_count> names{"direct", "winograd2", "winograd4",
                                                                              "layout", "total"};
  return names;
}

}  // namespace tilesim::analytic
