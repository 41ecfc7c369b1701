// Reads the shapes and attributes of an operation that closed forms need.
#pragma once

#include <optional>

#include "tilesim/analytic/attention.hpp"
#include "tilesim/analytic/convolution.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/graph/graph.hpp"

namespace tilesim::analytic {

inline double elements(const TensorType& type) { return static_cast<double>(element_count(type.shape)); }

/// `batch` products of [m, k] by [k, n].
struct ProductExtents {
  double batch, m, n, k;
  bool empty() const { return !(batch > 0 && m > 0 && n > 0 && k > 0); }
};

ProductExtents contract_extents(const GraphFunction& function, const Op& op);
/// Rows that select their matrix by group (experts): one product per group that can have rows.
ProductExtents ragged_extents(const GraphFunction& function, const Op& op);
/// A convolution as a product: [outputs, channels x taps] by [channels x taps, filters] per group.
ProductExtents convolution_extents(const GraphFunction& function, const Op& op);
/// The same for a library that skips inserted zeros: outputs at the same position between the inserted zeros use the
/// same part of the filter and form a separate product ("sub-filters" of strided input gradients).
ProductExtents phased_extents(const GraphFunction& function, const Op& op);
/// A square two-dimensional convolution without dilation and groups; empty for any other convolution.
std::optional<ConvolutionCase> square_convolution(const GraphFunction& function, const Op& op);
AttentionCase attention_case(const Graph& graph, const GraphFunction& function, const Op& op);
/// Number of rows of a row-wise operation whose rows are along `dim` or `dims` (default: the last axis).
double rows_of(const GraphFunction& function, const Op& op);

}  // namespace tilesim::analytic
