// The plan of a product kernel for a nest. It is computed once for legality, cost and statements.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tilesim/mapping/nest.hpp"

namespace tilesim::mapping {

/// Per operand (a, b, result): bit set of the dims on which it depends.
using OwnDims = std::array<std::uint64_t, 3>;
OwnDims own_dims(const Problem& problem);
std::uint64_t dims_of(const Access& access);

/// The loops of a nest, and the loop levels at which operands are loaded and sums begin.
struct LoopPlan {
  struct Loop {
    int dim = -1;
    bool reduction = false;
    std::size_t place = 0;  ///< position in the nest's order
    std::int64_t trips = 1;
  };
  std::vector<Loop> loops;  ///< loops with several or data-dependent trips, outer to inner
  /// Per operand, and for sums: number of enclosing loops. Each trip of these loops loads or begins a tile.
  std::array<std::size_t, 3> level{};
  /// Bit set of result dims whose loops are inside a contraction loop: the sums cover all tiles along these dims.
  std::uint64_t whole = 0;

  bool is_whole(int dim) const { return whole >> dim & 1; }
  /// Number of enclosing loops in the nest's order, including loops of one trip.
  std::size_t depth_in_order(std::size_t operand) const;
  /// Number of tile transfers, and how often each tile is transferred.
  struct Fetches { std::int64_t transfers = 1, repeats = 1; };
  Fetches fetches(std::size_t operand, const OwnDims& own) const;
};
LoopPlan plan_loops(const Problem& problem, const Nest& nest, const OwnDims& own);

/// Elements of a buffer of a, b or the sums. `whole`: see LoopPlan.
std::int64_t buffer_elements(const Problem& problem, const Nest& nest, std::uint64_t whole, std::size_t operand);

/// Bytes that a kernel needs in a core's memories.
struct Demand {
  std::int64_t scratchpad = 0, accumulator = 0;
  bool fits(const Share& machine) const;
};
Demand demand(const Problem& problem, const Nest& nest, const LoopPlan& loops, const Share& machine);

struct KernelPlan : LoopPlan {
  /// A ring of buffers for tiles of an operand or for sums.
  struct TileRing {
    Shape extents;  ///< per axis of the operand or result
    Shape along;    ///< part of the extents that is transferred but not used
    std::int64_t elements = 1, depth = 1;
    std::int64_t pieces = 1;   ///< number of pieces of a tile
    bool sent = false;         ///< one core fetches the tile for all cores, in its `sending_buffers`
    std::int64_t leaders = 1;  ///< number of cores that fetch tiles in turn; each fills every `leaders`-th buffer
    std::vector<int> cut;      ///< dims along which the tile is split into pieces
  };
  std::array<TileRing, 3> buffers{};      ///< of a, b and sums
  std::vector<TileRing> leaves, outputs;  ///< in the problem's order
  TileRing unfolded{};                    ///< unfolded tile of a; depth 0: none
  std::vector<int> cut;                   ///< dims that are split into pieces, in loop order
};
/// The plan of a nest that has a size per dim, an order of all dims, and three depths. Does not check memory sizes.
KernelPlan plan(const Problem& problem, const Nest& nest);

/// Most cores that can fetch tiles of operand a or b in turn for all cores. If both operands are sent, no core fetches
/// both.
std::int64_t most_leaders(const Problem& problem, std::size_t operand);

/// The access of a, b, the result, a leaf or an epilogue output.
const Access& access_of(const Problem& problem, std::size_t operand);
/// The access of a finished tile: the result's access without the axis of siblings.
Access finished_access(const Problem& problem);

/// Number of pieces per tile of an operand or the result; 1 for tiles that other cores send or the vector unit
/// computes.
std::int64_t pieces_of(const Problem& problem, const Nest& nest, std::size_t operand);
/// The nest without pieces.
Nest in_whole_tiles(Nest nest);

/// The loop order in which the pieces of a tile's operands are loaded. Dims of all operands that are loaded together
/// are outer loops, so that the pieces of one product arrive together; other dims of an operand are inner loops.
struct PieceOrder {
  std::vector<int> shared;
  std::array<std::vector<int>, 2> own;
};
PieceOrder piece_order(const Problem& problem, const std::vector<int>& cut, const bool (&fetched)[2]);

}  // namespace tilesim::mapping
