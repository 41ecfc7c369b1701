// Passes that rewrite linear algebra as operations that have a lowering.
#pragma once

#include "tilesim/graph/graph.hpp"
#include "tilesim/machine/share.hpp"

namespace tilesim::lower {

/// fft becomes products with constant matrices, radix after radix, with twiddle factors between them; an extent with a
/// prime that is too large for a product becomes a convolution (Bluestein). Radices are those that the machine's units
/// take least time for.
void expand_transforms(Graph& graph, const Share& machine);

/// linear_solve of matrices longer than a block becomes solves of blocks and products between them, halving.
void divide_solves(Graph& graph, const Share& machine);

/// Rows of a matrix that linear_solve takes at once: it stays on chip.
std::int64_t solve_block(const Share& machine, DType wide);

}  // namespace tilesim::lower
