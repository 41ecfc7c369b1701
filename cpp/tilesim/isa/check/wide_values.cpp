#include "tilesim/isa/check/wide_values.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "tilesim/base/functions/functions.hpp"

namespace tilesim::isa {

namespace {

using NodeOp = VectorNode::Op;

std::vector<const TileView*> wide_views(const TileCompute& compute) {
  if (const auto* mma = std::get_if<Mma>(&compute)) return {&mma->a, &mma->b, &mma->c};
  if (const auto* sort = std::get_if<tilesim::Sort>(&compute)) return {&sort->in, &sort->keys, &sort->positions};
  std::vector<const TileView*> views;
  if (const auto* vector = std::get_if<VectorCompute>(&compute)) {
    for (const TileView& view : vector->inputs) views.push_back(&view);
    for (const VectorOutput& output : vector->outputs) views.push_back(&output.view);
  }
  return views;
}

/// Whether a running sum of floats occurs: its result depends on the order of additions.
bool scans_floats(const VectorCompute& compute) {
  return std::any_of(compute.nodes.begin(), compute.nodes.end(), [](const VectorNode& node) {
    return node.op == NodeOp::scan && (node.combiner == Combiner::add || node.combiner == Combiner::multiply);
  });
}

}  // namespace

double WideValues::special_float(DType dtype) {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  static constexpr std::array<double, 22> fixed{
      0.0,      -0.0,         infinite,      -infinite,    std::numeric_limits<double>::quiet_NaN(),
      1,        -1,           0.5,           2.5,          -1.5,
      127.5,    128,          -129,          255.5,        32768,
      65504,    2147483648.0, -2147483648.0, 4294967296.0, 9223372036854775808.0,
      0x1p-149, -0x1p-126};
  const double value = fixed[random_() % fixed.size()];
  return dtype == DType::f64 && value == 0x1p-149 ? std::numeric_limits<double>::denorm_min() : value;
}

std::uint64_t WideValues::integer(DType dtype) {
  const int width = value_bits(dtype);
  const std::uint64_t top = std::uint64_t{1} << (width - 1), all = top - 1 + top;
  const std::array<std::uint64_t, 10> fixed{0,
                                            1,
                                            all,
                                            top,
                                            top - 1,
                                            top + 1,
                                            all - 1,
                                            static_cast<std::uint64_t>(width),
                                            static_cast<std::uint64_t>(width - 1),
                                            std::uint64_t{0} - 9};
  std::uint64_t value = 0;
  do {
    const std::uint64_t sort = random_() % 10;
    value = sort < 4 ? random_() : sort < 7 ? random_() % 19 - 9 : fixed[random_() % fixed.size()];
    value &= all;
  } while (no_zeros_ && value == 0);
  return value;
}

std::vector<std::byte> WideValues::draw(DType dtype, std::int64_t count) {
  const auto bytes = static_cast<std::size_t>(host_bytes(dtype));
  std::vector<std::byte> all(static_cast<std::size_t>(count) * bytes);
  for (std::int64_t i = 0; i < count; ++i) {
    std::byte* const at = all.data() + static_cast<std::size_t>(i) * bytes;
    if (dtype == DType::boolean) {
      *at = static_cast<std::byte>(random_() % 2);
    } else if (!is_float(dtype)) {
      const std::uint64_t value = integer(dtype);
      std::memcpy(at, &value, bytes);
    } else if (const std::uint64_t sort = random_() % 10; sort < 4) {
      const std::uint64_t value = random_();  // every exponent is equally likely
      std::memcpy(at, &value, bytes);
    } else {
      const double small = static_cast<double>(static_cast<std::int64_t>(random_() % 2049) - 1024) / 256;
      const double value = sort < 8 ? small : special_float(dtype);
      convert(&value, DType::f64, at, dtype, 1);
    }
  }
  return all;
}

WideExtent wide_extent(const TileView& view) {
  std::int64_t low = 0, high = 0;
  for (const ViewDim& dim : view.dims) {
    if (dim.extent <= 0) return {};
    (dim.stride < 0 ? low : high) += dim.stride * (dim.extent - 1);
  }
  return {low, high - low + 1};
}

bool draws_wide(const TileCompute& compute) {
  for (const TileView* view : wide_views(compute)) {
    const DTypeClass of = dtype_class(view->dtype);
    if (of == DTypeClass::complex || of == DTypeClass::pattern || bits(view->dtype) < 8) return false;
    if (is_two_of_four(view->dtype) || wide_extent(*view).count == 0) return false;
  }
  const auto* mma = std::get_if<Mma>(&compute);
  return mma == nullptr || (is_integer(mma->a.dtype) && is_integer(mma->b.dtype) && is_integer(mma->c.dtype));
}

bool divides_integers(const TileCompute& compute) {
  const auto* vector = std::get_if<VectorCompute>(&compute);
  if (vector == nullptr) return false;
  return std::any_of(vector->nodes.begin(), vector->nodes.end(), [](const VectorNode& node) {
    return node.op == NodeOp::function &&
           (node.function == Function::divide || node.function == Function::floor_divide ||
            node.function == Function::remainder);
  });
}

bool must_agree(const TileCompute& compute, std::size_t output) {
  const auto* vector = std::get_if<VectorCompute>(&compute);
  if (vector == nullptr) return true;
  const VectorOutput& one = vector->outputs[output];
  if (!is_float(one.view.dtype)) return !scans_floats(*vector);
  const bool multiplies = !one.reduce.empty() && one.combiner == Combiner::multiply;
  return !multiplies && !scans_floats(*vector);
}

std::int64_t wide_terms(const TileCompute& compute, std::size_t output) {
  const auto& vector = std::get<VectorCompute>(compute);
  std::int64_t terms = 1;
  for (const int dim : vector.outputs[output].reduce) terms *= vector.extents[static_cast<std::size_t>(dim)];
  return terms;
}

std::string wide_text(const TileCompute& compute) {
  std::string text = std::holds_alternative<Mma>(compute)             ? "mma"
                     : std::holds_alternative<tilesim::Sort>(compute) ? "sort"
                                                                      : "vector";
  for (const TileView* view : wide_views(compute)) {
    text += " " + std::string(name(view->dtype)) + "[";
    for (const ViewDim& dim : view->dims) text += (&dim == view->dims.data() ? "" : ",") + std::to_string(dim.extent);
    text += "]";
  }
  if (const auto* vector = std::get_if<VectorCompute>(&compute)) {
    text += ":";
    for (const VectorNode& node : vector->nodes) {
      if (node.op == NodeOp::function) text += " " + std::string(info(node.function).name);
      if (node.op == NodeOp::convert) text += " to_" + std::string(name(node.dtype));
      if (node.op == NodeOp::scan) text += " scan_" + std::string(name(node.combiner));
    }
    for (const VectorOutput& output : vector->outputs)
      if (!output.reduce.empty()) text += " combined_by_" + std::string(name(output.combiner));
  }
  return text;
}

}  // namespace tilesim::isa
