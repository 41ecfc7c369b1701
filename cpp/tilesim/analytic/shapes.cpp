#include "tilesim/analytic/shapes.hpp"

#include <algorithm>
#include <numeric>

#include "tilesim/base/index.hpp"
#include "tilesim/graph/attention.hpp"

namespace tilesim::analytic {

namespace {

using Axes = std::vector<std::int64_t>;

double number(std::int64_t x) { return static_cast<double>(x); }

const TensorType& operand(const GraphFunction& function, const Op& op, std::size_t index) {
  return function.value(op.operands[index]).type;
}

double product_of(const Shape& shape, const Axes& axes) {
  double product = 1;
  for (const std::int64_t axis : axes) product *= number(shape[at(axis)]);
  return product;
}

double product_without(const Shape& shape, const Axes& some, const Axes& others) {
  double product = 1;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(shape.size()); ++i)
    if (!std::ranges::count(some, i) && !std::ranges::count(others, i)) product *= number(shape[at(i)]);
  return product;
}

bool alike(const Axes& values) {
  return !values.empty() && std::ranges::all_of(values, [&](std::int64_t value) { return value == values[0]; });
}

/// Extents of a convolution, by the letters of its labels.
struct Labelled {
  double images, channels, filters;  ///< filters: of one group
  std::int64_t groups;
  Shape taps, size;  ///< spatial axes in the weight's order

  Labelled(const GraphFunction& function, const Op& op) {
    const Shape &x = operand(function, op, 0).shape, &w = operand(function, op, 1).shape;
    const std::string &in = op.attributes.text("x_labels"), &by = op.attributes.text("w_labels");
    for (std::size_t i = 0; i < by.size(); ++i) {
      if (by[i] == 'O' || by[i] == 'I') continue;
      taps.push_back(w[i]);
      size.push_back(x[in.find(by[i])]);
    }
    groups = op.attributes.integer("groups", 1);
    images = number(x[in.find('N')]);
    channels = number(w[by.find('I')]);
    filters = number(w[by.find('O')] / groups);
  }
};

}  // namespace

ProductExtents contract_extents(const GraphFunction& function, const Op& op) {
  const Shape &a = operand(function, op, 0).shape, &b = operand(function, op, 1).shape;
  const auto axes = [&](const char* key) { return op.attributes.integers(key, {}); };
  const Axes lead = axes("a_batch"), over = axes("a_contract");
  return {product_of(a, lead), product_without(a, lead, over), product_without(b, axes("b_batch"), axes("b_contract")),
          product_of(a, over)};
}

ProductExtents ragged_extents(const GraphFunction& function, const Op& op) {
  const Shape &a = operand(function, op, 0).shape, &b = operand(function, op, 1).shape;
  const std::int64_t used = std::max<std::int64_t>(1, std::min(b[0], a[0]));
  const bool transposed = op.attributes.flag("b_transposed");
  return {number(used), number(ceil_div(a[0], used)), number(b[transposed ? 1 : 2]), number(a[1])};
}

ProductExtents convolution_extents(const GraphFunction& function, const Op& op) {
  const Labelled found(function, op);
  const TensorType& y = function.value(op.results[0]).type;
  const std::int64_t out = y.shape[op.attributes.text("y_labels").find('C')];
  return {number(found.groups), elements(y) / number(std::max<std::int64_t>(1, out)), found.filters,
          found.channels * number(element_count(found.taps))};
}

ProductExtents phased_extents(const GraphFunction& function, const Op& op) {
  ProductExtents e = convolution_extents(function, op);
  const Axes holes = op.attributes.integers("input_dilation", {});
  const Axes strides = op.attributes.integers("strides", Axes(holes.size(), 1));
  const Axes dilation = op.attributes.integers("window_dilation", Axes(holes.size(), 1));
  const Shape& w = operand(function, op, 1).shape;
  const std::string& by = op.attributes.text("w_labels");
  std::size_t axis = 0;
  for (std::size_t i = 0; i < by.size() && axis < holes.size(); ++i) {
    if (by[i] == 'O' || by[i] == 'I') continue;
    const std::int64_t divisor = holes[axis];
    // Relative to inserted zeros, positions of outputs and taps repeat: one tap per period reads an element.
    const std::int64_t phases = divisor / std::gcd(divisor, strides[axis]);
    const std::int64_t period = divisor / std::gcd(divisor, dilation[axis]);
    ++axis;
    if (divisor == 1) continue;
    const double taps = number(w[i]), kept = taps / number(period);  // per output, mean over all phases
    const double live = std::min(number(phases), std::max(1.0, kept * number(phases)));  // other phases give only zeros
    e.batch *= live;
    e.m /= number(phases);
    e.k *= kept * number(phases) / live / taps;
  }
  return e;
}

std::optional<ConvolutionCase> square_convolution(const GraphFunction& function, const Op& op) {
  const Labelled found(function, op);
  const Axes window = op.attributes.integers("window_dilation", {1});
  const Axes pads = op.attributes.integers("pads", {0}), strides = op.attributes.integers("strides", {1});
  const bool plain = alike(window) && window[0] == 1 && op.attributes.integers("input_dilation", {}).empty();
  if (!plain || found.groups != 1 || found.size.size() != 2) return std::nullopt;
  if (!alike(found.size) || !alike(found.taps) || !alike(pads) || !alike(strides)) return std::nullopt;
  return ConvolutionCase{found.images,          found.channels,     found.filters,  number(found.size[0]),
                         number(found.taps[0]), number(strides[0]), number(pads[0])};
}

AttentionCase attention_case(const Graph& graph, const GraphFunction& function, const Op& op) {
  const AttentionShape shape = attention_shape(function, op);
  AttentionCase call{};
  call.batch = number(shape.batch);
  call.queries = number(shape.queries);
  call.keys = number(shape.keys);
  if (shape.lengths && shape.batch > 0)
    if (const AttentionReach reach = attention_reach(graph, function, op); reach.known)
      call.keys = std::accumulate(reach.lengths.begin(), reach.lengths.end(), 0.0) / number(shape.batch);
  call.heads = number(shape.heads);
  call.key_heads = number(shape.key_heads);
  call.depth = number(std::max(shape.depth, shape.width));
  call.window = number(op.attributes.integer("window", 0));
  call.causal = op.attributes.flag("causal");
  return call;
}

double rows_of(const GraphFunction& function, const Op& op) {
  const TensorType& x = operand(function, op, 0);
  const auto rank = static_cast<std::int64_t>(x.shape.size());
  Axes along{rank - 1};
  if (const Attribute* dim = op.attributes.find("dim"))
    along = {std::get<std::int64_t>(*dim)};
  else if (Axes dims = op.attributes.integers("dims", {}); !dims.empty())
    along = std::move(dims);
  double width = 1;
  for (std::int64_t axis : along) {
    if (axis < 0) axis += rank;
    if (axis >= 0 && axis < rank) width *= number(x.shape[at(axis)]);
  }
  return elements(x) / std::max(1.0, width);
}

}  // namespace tilesim::analytic
