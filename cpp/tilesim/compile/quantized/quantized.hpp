// Products whose operands are narrow floats, or numbers in blocks that share a scale.
#pragma once

#include "tilesim/compile/plan/plan.hpp"

namespace tilesim::lower {

/// Axes of a product along which an operand is computed from values that repeat in blocks (scales of groups, codes that
/// share a word) become several: what repeats is then read once per block, not spread over the whole operand.
/// A product whose given nest has its own dims stays.
void split_into_blocks(GraphFunction& function, const CompileOptions& options);

/// Contractions that end within such a block become a product of whole blocks and one of the rest, which is added.
void split_ragged_blocks(GraphFunction& function);

/// Numbers of 8 bits or fewer that the arrays do not multiply are widened before the product to the narrowest type that
/// they multiply and that holds every value.
void widen_operands(GraphFunction& function, const Share& machine);

}  // namespace tilesim::lower
