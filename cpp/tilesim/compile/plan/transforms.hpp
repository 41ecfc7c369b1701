// Passes that rewrite linear algebra into operations that have a lowering.
#pragma once

#include "tilesim/graph/graph.hpp"
#include "tilesim/machine/share.hpp"

namespace tilesim::lower {

/// Replaces fft by products with constant matrices, one per radix, with twiddle factors in between. If an extent has a
/// prime factor too large for a product, the transform becomes a convolution (Bluestein). Chooses the radices with the
/// lowest estimated time.
void expand_transforms(Graph& graph, const Share& machine);

/// Replaces linear_solve of matrices longer than a block by solves of blocks and products, recursively.
void divide_solves(Graph& graph, const Share& machine);

/// Number of matrix rows that a linear_solve processes at once; they must fit on chip.
std::int64_t solve_block(const Share& machine, DType wide);

}  // namespace tilesim::lower
