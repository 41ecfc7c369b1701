// Products with a weight some of whose tiles are all zero.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "tilesim/graph/graph.hpp"

namespace tilesim {

/// Elements of a tile along both of its axes, as the format "zero_tiles" has them.
constexpr std::int64_t zero_tile = 128;

/// What is known of an operand's tiles. `before` counts those along the contraction that are not all zero, i32[tiles of
/// the contraction + 1, tiles across]; `beside` those across, i32[tiles of the contraction, tiles across + 1].
struct ZeroTiles {
  int operand = -1;            ///< 0 or 1; -1: nothing is known
  std::string before, beside;  ///< weights of the graph
};
ZeroTiles zero_tiles_of(const Op& op);
/// The same; nothing where the operand is no longer the matrix that was looked at.
ZeroTiles zero_tiles_of(const Graph& graph, const GraphFunction& function, const Op& op);

/// Finds contracts of the entry function with a matrix that is a weight with tiles of zeros, and adds what is known of
/// them to the graph's weights (of two operands the one with fewer tiles left). An exact product only where the other
/// operand is a weight without NaN and infinity: zero times these is not zero. Returns a line for each that it found,
/// and for each that it left alone. `leave`: names of products that stay as they are.
std::vector<std::string> mark_zero_tiles(Graph& graph, const std::set<std::string>& leave = {});

/// Does the same for activations: counts are computed in the graph, by a test of every tile, and are further operands
/// ("before", "beside") of the product. Only of matrices of some tiles that enter, or end in a function which gives
/// many zeros (relu, maximum, select, clamp, multiply); not of exact products, nor where a weight has tiles of zeros.
std::vector<std::string> find_zero_tiles(Graph& graph, const std::set<std::string>& leave = {});

/// Whether an operation's counts are operands.
bool finds_zero_tiles(const Op& op);

/// The share of tiles, or of elements where that is less, that products need of an operand; of one that sparse cores
/// take in a format the share of its bytes; 1 where nothing is known, 0 where a test of the data says it: there may be
/// none. Of the operand with tiles of zeros it is the
/// share of multiply-adds too.
double share_left(const Graph& graph, const GraphFunction& function, const Op& op, int operand);

}  // namespace tilesim
