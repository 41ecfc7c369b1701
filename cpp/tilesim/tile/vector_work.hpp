// Moves and work of a vector compute's kernel per register, counted from its nodes. These counts identify the compute
// in closed forms.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tilesim/tile/tile.hpp"

namespace tilesim {

/// Indices into VectorMoves::counts.
namespace vector_count {
/// 1: counts are known; 2: also, the longest chain starts with a register filled before the first element.
inline constexpr std::size_t known = 0;
/// Loads of operands, by [dims along which the operand varies: a sum of VectorForm::along_*][32, 16, 8 bits in memory].
inline constexpr std::size_t loads = 1;
/// Stores, by [results per element, combined results][32, 16 bits, 8-bit floats, 8-bit integers].
inline constexpr std::size_t stores = 25;
/// Instructions of nodes, by class: simple, multiply, divide, transcendental.
inline constexpr std::size_t instructions = 33;
/// Results that an instruction of class simple combines; of class multiply.
inline constexpr std::size_t combines = 37;
inline constexpr std::size_t accumulates = 39;     ///< results combined with existing values
inline constexpr std::size_t masks = 40;           ///< instructions that wait for the previous one's mask
inline constexpr std::size_t chain = 41;           ///< instructions in the longest chain
inline constexpr std::size_t spread_chain = 42;    ///< longest chain from an operand with one element per row
inline constexpr std::size_t lives = 43;           ///< sum of the lives of all values, in instruction latencies
inline constexpr std::size_t live = 44;            ///< most values that are live at one time
inline constexpr std::size_t constants = 45;       ///< registers filled before the first element
inline constexpr std::size_t longest = 46;         ///< longest life of a value, in instruction latencies
inline constexpr std::size_t lanes_combined = 47;  ///< 1: results are combined over the lanes
/// Float results of class multiply that are products; the others are sums.
inline constexpr std::size_t products = 48;
constexpr std::size_t load(unsigned where, std::size_t width) { return loads + 3 * where + width; }
constexpr std::size_t store(bool combined, std::size_t width) { return stores + (combined ? 4 : 0) + width; }
}  // namespace vector_count

inline constexpr std::size_t most_vector_dims = 32;

/// Moves of a compute, without its extents. Sets of dims are bit masks.
struct VectorPattern {
  struct Operand {
    std::uint32_t dims = 0;   ///< dims along which it varies
    std::uint8_t width = 0;   ///< 0: 32 bits in memory, 1: 16, 2: 8
    std::uint16_t chain = 0;  ///< most instructions from the operand to a result
  };
  VectorMoves moves;
  std::vector<Operand> operands;
  std::uint32_t combined = 0;  ///< combined dims
  bool known() const { return moves.known(); }
};

struct VectorRead {
  DType dtype = DType::f32;
  std::uint32_t dims = 0;  ///< dims along which it varies
};
struct VectorWrite {
  int node = 0;
  DType dtype = DType::f32;
  std::uint32_t combined = 0;  ///< combined dims
  Combiner combiner = Combiner::add;
  bool accumulate = false;
};

/// `taken`: functions that user-defined instructions with given cycles replace. Not known if there are running sums.
VectorPattern pattern_of(std::span<const VectorNode> nodes, std::span<const VectorRead> reads,
                         std::span<const VectorWrite> writes, const std::vector<Function>& taken = {});

/// Adds the moves of `pattern` to a vector descriptor with these extents. `lane`: the lane dim; -1: the innermost dim.
void add_moves(Descriptor& descriptor, const VectorPattern& pattern, std::span<const std::int64_t> extents, int lane);

}  // namespace tilesim
