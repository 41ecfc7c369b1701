// Products whose operands are narrow floats, or numbers in blocks that share a scale.
#pragma once

#include "tilesim/compile/plan/plan.hpp"

namespace tilesim::lower {

/// Splits axes of a product if an operand is computed from values repeated in blocks (scales of groups, codes packed in
/// a word): a repeated value is then read once per block, instead of expanded to the full operand. A product with a
/// given nest keeps its dims.
void split_into_blocks(GraphFunction& function, const CompileOptions& options);

/// Splits a contraction that ends within such a block into whole blocks and the rest, and adds the two products.
void split_ragged_blocks(GraphFunction& function);

/// Widens numbers of 8 bits or fewer that the arrays do not multiply to the narrowest supported type that represents
/// every value, before the product.
void widen_operands(GraphFunction& function, const Share& machine);

}  // namespace tilesim::lower
