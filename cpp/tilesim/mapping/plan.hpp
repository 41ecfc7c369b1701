// The plan of a product kernel under a nest. It is decided once; legality, cost and statements read it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tilesim/mapping/nest.hpp"

namespace tilesim::mapping {

/// Sets of dims as bits: those that operand a, b and the result depend on.
using OwnDims = std::array<std::uint64_t, 3>;
OwnDims own_dims(const Problem& problem);
std::uint64_t dims_of(const Access& access);

/// The loops of a nest and where operands and sums stand between them.
struct LoopPlan {
  struct Loop {
    int dim = -1;
    bool reduction = false;
    std::size_t place = 0;  ///< in the nest's order
    std::int64_t trips = 1;
  };
  std::vector<Loop> loops;  ///< that turn more than once, or as often as data say; outer to inner
  /// Per operand and sums: how many loops stand outside. Each of their trips fetches, or begins, a tile.
  std::array<std::size_t, 3> level{};
  /// Result dims, as bits, whose loops run inside one of the contraction: the sums span all their tiles.
  std::uint64_t whole = 0;

  bool is_whole(int dim) const { return whole >> dim & 1; }
  /// How many loops of the nest's order, all counted, stand outside.
  std::size_t depth_in_order(std::size_t operand) const;
  /// Tiles that are loaded, or stored, and how often each of them.
  struct Fetches { std::int64_t transfers = 1, repeats = 1; };
  Fetches fetches(std::size_t operand, const OwnDims& own) const;
};
LoopPlan plan_loops(const Problem& problem, const Nest& nest, const OwnDims& own);

/// Elements of a buffer of a, b or the sums; `whole` as in the loops.
std::int64_t buffer_elements(const Problem& problem, const Nest& nest, std::uint64_t whole, std::size_t operand);

/// Bytes of a core's memories.
struct Demand {
  std::int64_t scratchpad = 0, accumulator = 0;
  bool fits(const Share& machine) const;
};
Demand demand(const Problem& problem, const Nest& nest, const LoopPlan& loops, const Share& machine);

struct KernelPlan : LoopPlan {
  /// A ring of buffers that tiles of one operand, or sums, pass through.
  struct TileRing {
    Shape extents;  ///< per axis of the operand or result
    Shape along;    ///< of these extents, what memory brings along beyond what is used
    std::int64_t elements = 1, depth = 1;
    std::int64_t pieces = 1;   ///< in which a tile comes, or leaves
    bool sent = false;         ///< one core fetches it for all, through its `sending_buffers`
    std::int64_t leaders = 1;  ///< cores that do so in turn, tile by tile; each fills every so manieth buffer
    std::vector<int> cut;      ///< dims along which it comes in pieces
  };
  std::array<TileRing, 3> buffers{};      ///< of a, b, sums
  std::vector<TileRing> leaves, outputs;  ///< as the problem has them
  TileRing unfolded{};                    ///< of a tile of a with windows unfolded; depth 0: none
  std::vector<int> cut;                   ///< dims in pieces, in the order in which pieces follow each other
};
/// Of a nest with a size per dim, an order of all dims and three depths; whether it fits is the caller's question.
KernelPlan plan(const Problem& problem, const Nest& nest);

/// How many cores at most fetch tiles of operand a or b for all that need them, in turn: with both operands sent, no
/// core does so for both.
std::int64_t most_leaders(const Problem& problem, std::size_t operand);

/// The access of a, b, the result, the leaves, and what the epilogue stores.
const Access& access_of(const Problem& problem, std::size_t operand);
/// Of what the vector unit finishes at one time: the result's, without the axis of siblings.
Access finished_access(const Problem& problem);

/// In how many pieces a tile of an operand comes, or one of the result leaves. What other cores send, or the vector
/// unit computes, comes whole.
std::int64_t pieces_of(const Problem& problem, const Nest& nest, std::size_t operand);
/// The nest without pieces.
Nest in_whole_tiles(Nest nest);

/// The way the pieces of a tile's operands take from memory: the dims that all of those fetched together have are the
/// outer loops, so that pieces that meet in a product come one after the other; each operand's own are inside.
struct PieceOrder {
  std::vector<int> shared;
  std::array<std::vector<int>, 2> own;
};
PieceOrder piece_order(const Problem& problem, const std::vector<int>& cut, const bool (&fetched)[2]);

}  // namespace tilesim::mapping
