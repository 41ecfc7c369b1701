// The plan of a vector kernel for its tiles. It is computed once for legality, cost and statements.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tilesim/mapping/vector.hpp"

namespace tilesim::mapping {

/// The product, limited to a number that exceeds every memory's size.
inline std::int64_t saturating(std::int64_t a, std::int64_t b) {
  constexpr std::int64_t most = INT64_MAX / 8;
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) || product > most ? most : product;
}

/// Consecutive stages with their loads. If the tiles of a row stream, a phase is one pass over them.
struct VectorPhase {
  bool streams = false;     ///< runs for each tile of a row, instead of once
  std::vector<int> loads;   ///< operands in load order
  std::vector<int> stages;  ///< indices into `stages_of`, in order
};
std::vector<VectorPhase> phases_of(const VectorProblem& problem, bool streamed);

struct VectorPlan {
  struct Loop {
    int axis = 0;  ///< axis of the space; in `parts`: axis of the taps
    std::int64_t trips = 1, tile = 1;
    bool carried = false;  ///< each tile continues the previous tile
  };
  /// Loops with several trips, outer to inner. rows: over rows of tiles; columns: over the tiles of a row, in each
  /// streaming pass; parts: over parts of a window (innermost).
  std::vector<Loop> rows, columns, parts;
  bool streamed = false;  ///< whether the tiles of a row stream
  /// A ring of buffers for tiles of an operand.
  struct OperandRing {
    bool there = true;
    Shape extents;  ///< extents of a tile, per axis of the space
    Shape strides;  ///< strides on chip; 0 for axes on which it does not depend
    std::int64_t elements = 1, depth = 1;
    bool turned = false;     ///< whether the cross-lane unit permutes its elements
    bool in_pieces = false;  ///< whether its tile moves in pieces
    std::size_t queue = 0;   ///< index of its load queue
  };
  std::vector<OperandRing> buffers;  ///< in the order of the problem's operands
  Shape pieces;                      ///< number of pieces of a full tile, per axis
  bool carries = false;              ///< whether a loop is carried
  std::vector<VectorPhase> phases;
  bool in_pieces() const;
};
VectorPlan plan(const VectorProblem& problem, const VectorTiles& tiles, const Share& machine);

/// The problem's stages, or one default stage.
std::vector<VectorStage> stages_of(const VectorProblem& problem);
/// `streams`: a reduced axis is split, so the tiles of a row stream; `window_in_parts`: the taps of a window are split.
bool streams(const VectorProblem& problem, const VectorTiles& tiles);
bool window_in_parts(const VectorProblem& problem);
/// Whether tiles, or parts of a window, continue earlier ones.
bool tiles_follow(const VectorProblem& problem, const VectorTiles& tiles);
/// Whether an operand's tiles have pieces with these tile sizes; false if it broadcasts along all split axes.
bool in_pieces(const VectorProblem& problem, const VectorOperand& operand, const VectorTiles& tiles);
/// Whether the operand has buffers with these tile sizes.
bool is_there(const VectorProblem& problem, const VectorOperand& operand, const VectorTiles& tiles);
/// Elements on chip for a tile of this size: `held_extent` along an axis, `held_elements` in total.
std::int64_t held_extent(const VectorProblem& problem, const VectorOperand& operand, std::size_t axis,
                         std::int64_t size);
std::int64_t held_elements(const VectorProblem& problem, const VectorOperand& operand,
                           const std::vector<std::int64_t>& size);

/// Tiles or pieces along an axis: `count` of them, `size` elements long, one every `distance` elements.
struct Stretch { std::int64_t start = 0, size = 1, distance = 0, count = 1; };
std::vector<Stretch> stretches(std::int64_t extent, std::int64_t tile, std::int64_t piece);

}  // namespace tilesim::mapping
