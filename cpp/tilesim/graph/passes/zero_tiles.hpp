// Products with a weight some of whose tiles are all zero.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "tilesim/graph/graph.hpp"

namespace tilesim {

/// Extent of a tile along both axes, by the definition of the format "zero_tiles".
constexpr std::int64_t zero_tile = 128;

/// Nonzero tiles of an operand, as running counts. `before` counts along the contraction, i32[tiles of the contraction
/// + 1, tiles across]; `beside` counts across, i32[tiles of the contraction, tiles across + 1].
struct ZeroTiles {
  int operand = -1;            ///< 0 or 1; -1: unknown
  std::string before, beside;  ///< names of graph weights
};
ZeroTiles zero_tiles_of(const Op& op);
/// The counts of an operation; empty once the operand differs from the examined matrix.
ZeroTiles zero_tiles_of(const Graph& graph, const GraphFunction& function, const Op& op);

/// Finds contracts of the entry function with a weight matrix that has zero tiles, and adds the counts to the graph's
/// weights (if both operands have some, for the one with fewer nonzero tiles). For an exact product the other operand
/// must be a weight without NaN and infinity, because zero times these is not zero. Returns a line for each product
/// found, and for each one skipped. `leave`: names of products to skip.
std::vector<std::string> mark_zero_tiles(Graph& graph, const std::set<std::string>& leave = {});

/// Does the same for activations: the graph computes the counts by testing every tile, as further operands ("before",
/// "beside") of the product. Only for matrices of several tiles that are inputs or results of functions with many zeros
/// (relu, maximum, select, clamp, multiply); not for exact products, nor if a weight has zero tiles.
std::vector<std::string> find_zero_tiles(Graph& graph, const std::set<std::string>& leave = {});

/// Whether an operation has counts as operands.
bool finds_zero_tiles(const Op& op);

/// The share of tiles (or of elements if that is less) that products need of an operand; for an operand in a sparse
/// storage format the share of its bytes; 1 if unknown, 0 if data are tested at run time, since all tiles may be zero.
/// For an operand with zero tiles it is also the share of multiply-adds.
double share_left(const Graph& graph, const GraphFunction& function, const Op& op, int operand);

}  // namespace tilesim
