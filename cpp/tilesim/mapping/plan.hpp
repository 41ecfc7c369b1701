// The plan of a product kernel under a nest. It is computed once; legality, cost and statements use it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tilesim/mapping/nest.hpp"

namespace tilesim::mapping {

/// Bit sets of the dims on which a, b and the result depend.
using OwnDims = std::array<std::uint64_t, 3>;
OwnDims own_dims(const Problem& problem);
std::uint64_t dims_of(const Access& access);

/// The loops of a nest, and the loop levels of operands and sums.
struct LoopPlan {
  struct Loop {
    int dim = -1;
    bool reduction = false;
    std::size_t place = 0;  ///< position in the nest's order
    std::int64_t trips = 1;
  };
  std::vector<Loop> loops;  ///< loops with several or data-dependent trips, outer to inner
  /// Per operand and sums: number of enclosing loops. Each trip of these loads, or begins, a tile.
  std::array<std::size_t, 3> level{};
  /// Bit set of result dims with loops inside a contraction loop: the sums span all tiles along these dims.
  std::uint64_t whole = 0;

  bool is_whole(int dim) const { return whole >> dim & 1; }
  /// Number of enclosing loops in the nest's order, including those of one trip.
  std::size_t depth_in_order(std::size_t operand) const;
  /// Number of tile transfers, and how often each tile is transferred.
  struct Fetches { std::int64_t transfers = 1, repeats = 1; };
  Fetches fetches(std::size_t operand, const OwnDims& own) const;
};
LoopPlan plan_loops(const Problem& problem, const Nest& nest, const OwnDims& own);

/// Elements of a buffer of a, b or the sums; `whole` as in LoopPlan.
std::int64_t buffer_elements(const Problem& problem, const Nest& nest, std::uint64_t whole, std::size_t operand);

/// Bytes in a core's memories.
struct Demand {
  std::int64_t scratchpad = 0, accumulator = 0;
  bool fits(const Share& machine) const;
};
Demand demand(const Problem& problem, const Nest& nest, const LoopPlan& loops, const Share& machine);

struct KernelPlan : LoopPlan {
  /// A ring of buffers for tiles of one operand or for sums.
  struct TileRing {
    Shape extents;  ///< per axis of the operand or result
    Shape along;    ///< part of these extents that is transferred but not used
    std::int64_t elements = 1, depth = 1;
    std::int64_t pieces = 1;   ///< number of pieces of a tile
    bool sent = false;         ///< one core fetches the tile for all, through its `sending_buffers`
    std::int64_t leaders = 1;  ///< cores that fetch tiles in turn; each fills every `leaders`-th buffer
    std::vector<int> cut;      ///< dims along which the tile has pieces
  };
  std::array<TileRing, 3> buffers{};      ///< of a, b, sums
  std::vector<TileRing> leaves, outputs;  ///< in the order of the problem
  TileRing unfolded{};                    ///< unfolded tile of a; depth 0: none
  std::vector<int> cut;                   ///< dims in pieces, in loop order
};
/// The plan of a nest with a size per dim, an order of all dims and three depths. Does not check that it fits.
KernelPlan plan(const Problem& problem, const Nest& nest);

/// Most cores that may take turns to fetch tiles of operand a or b for all cores. If both operands are sent, no core
/// fetches both.
std::int64_t most_leaders(const Problem& problem, std::size_t operand);

/// The access of a, b, the result, a leaf or an epilogue output.
const Access& access_of(const Problem& problem, std::size_t operand);
/// The access of a finished tile: the result's, without the siblings' axis.
Access finished_access(const Problem& problem);

/// Number of pieces per tile of an operand or of the result. Tiles sent by other cores or computed by the vector unit
/// have one.
std::int64_t pieces_of(const Problem& problem, const Nest& nest, std::size_t operand);
/// The nest without pieces.
Nest in_whole_tiles(Nest nest);

/// The loop order in which pieces of a tile's operands are loaded. Dims of all operands loaded together are outer
/// loops, so that pieces of one product arrive consecutively; the other dims of an operand are inner loops.
struct PieceOrder {
  std::vector<int> shared;
  std::array<std::vector<int>, 2> own;
};
PieceOrder piece_order(const Problem& problem, const std::vector<int>& cut, const bool (&fetched)[2]);

}  // namespace tilesim::mapping
