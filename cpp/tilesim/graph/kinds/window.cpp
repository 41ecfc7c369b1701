// window_reduce: pooling.
#include "tilesim/base/shape.hpp"
#include "tilesim/graph/kinds/rules.hpp"

namespace tilesim::rules {
namespace {

struct Window { Integers sizes, strides, pads, dilation; };

Window window_of(const Op& op, const TensorType& x) {
  Window window{required_sized(op, "window", rank(x), 1), sized(op, "strides", rank(x), 1, 1),
                sized(op, "pads", 2 * rank(x), 0, 0), sized(op, "window_dilation", rank(x), 1, 1)};
  return window;
}

std::vector<TensorType> infer_window_reduce(const Op& op, Types operands, const Graph&) {
  const TensorType& x = *operands[0];
  const Window window = window_of(op, x);
  if (x.dtype == DType::boolean) refuse("the operand of window_reduce cannot be bool", to_string(x), "a number dtype");
  TensorType result = x;
  for (std::size_t i = 0; i < result.shape.size(); ++i)
    result.shape[i] = window_extent(x.shape[i], window.sizes[i], window.strides[i], window.pads[2 * i],
                                    window.pads[2 * i + 1], window.dilation[i], 1);
  return {result};
}

Flops window_flops(const Op& op, Types operands, std::span<const TensorType> results) {
  const Window window = window_of(op, *operands[0]);
  Flops flops;
  (op.attributes.text("combiner") == "multiply" ? flops.multiply : flops.simple) =
      static_cast<double>(count(results[0])) * static_cast<double>(element_count(window.sizes));
  return flops;
}

/// Dims d0.. over the result, then w0.. over the window; an axis with window 1 has no second dim.
Domain window_domain(const Op& op, Types operands, std::span<const TensorType> results) {
  const TensorType& x = *operands[0];
  const Window window = window_of(op, x);
  Domain domain = over(results[0].shape);
  Access read;
  for (std::size_t i = 0; i < x.shape.size(); ++i) {
    AxisAccess axis = along(static_cast<std::int64_t>(i), window.strides[i]);
    axis.constant = -window.pads[2 * i];
    if (window.sizes[i] > 1) {
      axis.terms.push_back({static_cast<int>(domain.extents.size()), window.dilation[i]});
      domain.extents.push_back(window.sizes[i]);
      domain.names.push_back("w" + std::to_string(i));
      domain.reduction.push_back(true);
    }
    const std::int64_t last =
        (results[0].shape[i] - 1) * window.strides[i] + (window.sizes[i] - 1) * window.dilation[i] + axis.constant;
    axis.may_leave = axis.constant < 0 || last >= x.shape[i];
    read.axes.push_back(std::move(axis));
  }
  domain.operands.push_back(std::move(read));
  domain.results.push_back(identity(rank(results[0])));
  return domain;
}

}  // namespace

void add_windows(std::vector<KindInfo>& table) {
  using A = AttributeType;
  table.push_back({.kind = Kind::window_reduce,
                   .name = "window_reduce",
                   .min_operands = 1,
                   .max_operands = 1,
                   .min_results = 1,
                   .max_results = 1,
                   .operand_names = {"x"},
                   .attributes = {required("window", A::integers), optional("strides", A::integers),
                                  optional("pads", A::integers), optional("window_dilation", A::integers),
                                  required("combiner", A::text, {"add", "maximum", "minimum", "multiply"})},
                   .infer = infer_window_reduce,
                   .flops = window_flops,
                   .domain = window_domain});
}

}  // namespace tilesim::rules
