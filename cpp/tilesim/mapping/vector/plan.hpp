// The plan of a vector kernel under its tiles. It is decided once; legality, cost and statements read it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tilesim/mapping/vector.hpp"

namespace tilesim::mapping {

/// The product, or a count beyond every memory.
inline std::int64_t saturating(std::int64_t a, std::int64_t b) {
  constexpr std::int64_t most = INT64_MAX / 8;
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) || product > most ? most : product;
}

/// A tile's computes that follow each other with what they load; where the tiles of a row stream by, one pass over
/// them.
struct VectorPhase {
  bool streams = false;     ///< for each tile of a row, not once for all
  std::vector<int> loads;   ///< operands, in the order in which they are loaded
  std::vector<int> stages;  ///< of `stages_of`, in order
};
std::vector<VectorPhase> phases_of(const VectorProblem& problem, bool streamed);

struct VectorPlan {
  struct Loop {
    int axis = 0;  ///< of the space; of the taps in `parts`
    std::int64_t trips = 1, tile = 1;
    bool carried = false;  ///< each tile continues the one before
  };
  /// Loops that turn more than once, outer to inner: over rows of tiles, over the tiles of a row (in each pass that
  /// streams), over parts of a window (inside, the same).
  std::vector<Loop> rows, columns, parts;
  bool streamed = false;  ///< tiles of a row stream by
  /// A ring of buffers that an operand's tiles pass through.
  struct OperandRing {
    bool there = true;
    Shape extents;  ///< of a tile, per axis of the space
    Shape strides;  ///< of the tile on chip, 0 along axes that it does not span
    std::int64_t elements = 1, depth = 1;
    bool turned = false;     ///< its elements change lanes on the way: by the cross-lane unit
    bool in_pieces = false;  ///< its tile comes, or leaves, piece by piece
    std::size_t queue = 0;   ///< that loads it
  };
  std::vector<OperandRing> buffers;  ///< as the problem's operands
  Shape pieces;                      ///< of a full tile, per axis
  bool carries = false;              ///< a loop is carried
  std::vector<VectorPhase> phases;
  bool in_pieces() const;
};
VectorPlan plan(const VectorProblem& problem, const VectorTiles& tiles, const Share& machine);

/// The problem's stages, or the one that stands for them.
std::vector<VectorStage> stages_of(const VectorProblem& problem);
/// Whether an axis that is combined is cut, so that the tiles of a row stream by; whether a window's taps are.
bool streams(const VectorProblem& problem, const VectorTiles& tiles);
bool window_in_parts(const VectorProblem& problem);
/// Whether tiles, or parts of a window, continue what others before them have begun.
bool tiles_follow(const VectorProblem& problem, const VectorTiles& tiles);
/// Whether an operand's tiles come in pieces, if tiles do: those that broadcast along an axis in pieces come whole.
bool in_pieces(const VectorProblem& problem, const VectorOperand& operand, const VectorTiles& tiles);
/// Whether the operand has buffers under these tiles.
bool is_there(const VectorProblem& problem, const VectorOperand& operand, const VectorTiles& tiles);
/// Elements on chip for a tile of this size, along an axis and in all.
std::int64_t held_extent(const VectorProblem& problem, const VectorOperand& operand, std::size_t axis,
                         std::int64_t size);
std::int64_t held_elements(const VectorProblem& problem, const VectorOperand& operand,
                           const std::vector<std::int64_t>& size);

/// Tiles, or their pieces, along an axis: `count` of a size, one every `distance`.
struct Stretch { std::int64_t start = 0, size = 1, distance = 0, count = 1; };
std::vector<Stretch> stretches(std::int64_t extent, std::int64_t tile, std::int64_t piece);

}  // namespace tilesim::mapping
