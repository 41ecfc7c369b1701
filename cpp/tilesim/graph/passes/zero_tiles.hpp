// Products with a weight that has tiles of zeros.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "tilesim/graph/graph.hpp"

namespace tilesim {

/// Extent of a tile along both axes, as defined by the format "zero_tiles".
constexpr std::int64_t zero_tile = 128;

/// Running counts of an operand's nonzero tiles. `before` counts along the contraction: i32[tiles along contraction +
/// 1, tiles across]; `beside` counts across: i32[tiles along contraction, tiles across + 1].
struct ZeroTiles {
  int operand = -1;            ///< 0 or 1; -1: no counts
  std::string before, beside;  ///< names of graph weights
};
ZeroTiles zero_tiles_of(const Op& op);
/// The counts of an operation; empty if its operand is no longer the matrix that was counted.
ZeroTiles zero_tiles_of(const Graph& graph, const GraphFunction& function, const Op& op);

/// Finds contracts of the entry function with a weight matrix that has zero tiles, and adds the counts to the graph's
/// weights (if both operands have zero tiles, for the one with fewer nonzero tiles). An exact product also requires
/// that the other operand is a weight without NaN and infinity, because zero times these is not zero. Skips products
/// named in `leave`. Returns a line per product, found or skipped.
std::vector<std::string> mark_zero_tiles(Graph& graph, const std::set<std::string>& leave = {});

/// The same for activations: the graph tests every tile at run time and passes the counts to the product as further
/// operands ("before", "beside"). Only for matrices of several tiles that are inputs or results of functions with many
/// zeros (relu, maximum, select, clamp, multiply), not for exact products, and not if a weight has zero tiles.
std::vector<std::string> find_zero_tiles(Graph& graph, const std::set<std::string>& leave = {});

/// Whether the operation has such counts as operands.
bool finds_zero_tiles(const Op& op);

/// Share of an operand's tiles (or of its elements, if less) that products need; for an operand in a sparse format, the
/// share of its bytes. 1 if unknown; 0 if tiles are tested at run time, because all may be zero. For an operand with
/// zero tiles, it is also the share of multiply-adds.
double share_left(const Graph& graph, const GraphFunction& function, const Op& op, int operand);

}  // namespace tilesim
