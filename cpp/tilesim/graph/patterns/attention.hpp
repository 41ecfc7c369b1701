// Maps the axes of two products with a softmax between them to those of attention. Internal to this module.
#pragma once

#include "tilesim/graph/patterns/recognition.hpp"

namespace tilesim::recognition::attention_layout {

/// A product of two operands, seen from `x` (softmax or queries); the other is `y` (keys or values).
struct Product {
  ValueId x, y;
  Integers x_batch, y_batch, x_sum, y_sum;
  bool swapped;  ///< free axes of y come first in the result
};
Product seen_from(const Op& op, bool second);

/// The meaning of the scores' axes, as axes of the tensors.
struct Layout {
  Integers q, k, v;  ///< permutations to [batch.., shared.., D], [batch.., T, D], [batch.., T, E]
  Integers mask;     ///< permutation of the scores to [batch.., shared.., T]
  Integers out;      ///< permutation of [batch.., shared.., E] to the result
  std::size_t batches = 0, shared = 0;
};

/// `first`: scores from queries and keys; `second`: the result from weights and values. Its axis i is axis order[i] of
/// the scores.
std::optional<Layout> layout_of(const Reader& reader, const Product& first, Product second, const Integers& order,
                                std::int64_t dim);

// Tensors of a replacement in the making.
ValueId turned(Builder& builder, ValueId x, const Integers& permutation);
ValueId shaped(Builder& builder, ValueId x, const Shape& shape);
std::int64_t product_of(const Shape& shape, std::size_t begin, std::size_t end);
/// [batch.., shared.., last] as [B, H, S, last]: the last batch axis holds key heads, the last shared one queries.
Shape four(const Shape& shape, const Layout& layout);
/// The mask reshaped so that it broadcasts to [B, H, S, T]. Axis a of the scores is axis level[a] of the mask, whose
/// axes align from the right, with extent 1 where it repeats.
ValueId four_mask(Builder& builder, ValueId mask, const Shape& full, const Layout& layout, const Integers& level);

}  // namespace tilesim::recognition::attention_layout
