// Maps the axes of two products with a softmax between them to the axes of an attention. Internal to this module.
#pragma once

#include "tilesim/graph/patterns/recognition.hpp"

namespace tilesim::recognition::attention_layout {

/// A product of two operands: `x` (softmax or queries) and `y` (keys or values).
struct Product {
  ValueId x, y;
  Integers x_batch, y_batch, x_sum, y_sum;
  bool swapped;  ///< in the result, free axes of y come first
};
Product seen_from(const Op& op, bool second);

/// Which axes of each tensor are batch axes, shared axes (keys and values have no such axis), sequence and depth.
struct Layout {
  Integers q, k, v;  ///< permutations to [batch.., shared.., D], [batch.., T, D], [batch.., T, E]
  Integers mask;     ///< permutation of the scores to [batch.., shared.., T]
  Integers out;      ///< permutation of [batch.., shared.., E] to the result
  std::size_t batches = 0, shared = 0;
};

/// `first`: the product of queries and keys; `second`: of weights (softmax) and values. Axis i of the weights is axis
/// order[i] of the scores.
std::optional<Layout> layout_of(const Reader& reader, const Product& first, Product second, const Integers& order,
                                std::int64_t dim);

// Builders of the replacement's tensors.
ValueId turned(Builder& builder, ValueId x, const Integers& permutation);
ValueId shaped(Builder& builder, ValueId x, const Shape& shape);
std::int64_t product_of(const Shape& shape, std::size_t begin, std::size_t end);
/// [batch.., shared.., last] as [B, H, S, last]. The last batch axis is that of key heads, the last shared axis S.
Shape four(const Shape& shape, const Layout& layout);
/// The mask, reshaped so that it broadcasts to [B, H, S, T]. Axis a of the scores is axis level[a] of the mask; axes
/// align from the right; repeated axes have extent 1.
ValueId four_mask(Builder& builder, ValueId mask, const Shape& full, const Layout& layout, const Integers& level);

}  // namespace tilesim::recognition::attention_layout
