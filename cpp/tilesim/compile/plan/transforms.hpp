// Passes that rewrite linear algebra as operations that have a lowering.
#pragma once

#include "tilesim/graph/graph.hpp"
#include "tilesim/machine/share.hpp"

namespace tilesim::lower {

/// Replaces fft by products with constant matrices, one per radix, with twiddle factors between them; an extent with a
/// prime too large for a product becomes a convolution (Bluestein). The radices are those with the lowest estimated
/// time.
void expand_transforms(Graph& graph, const Share& machine);

/// Replaces linear_solve of matrices longer than a block by solves of blocks and products between them, recursively.
void divide_solves(Graph& graph, const Share& machine);

/// Number of matrix rows that linear_solve takes at once: they stay on chip.
std::int64_t solve_block(const Share& machine, DType wide);

}  // namespace tilesim::lower
