// Moves and work per register of a vector compute's kernel, counted from its nodes. At tile level, closed forms
// identify a compute by these counts.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tilesim/tile/tile.hpp"

namespace tilesim {

/// Places in VectorMoves::counts.
namespace vector_count {
/// 1; 2: the longest chain begins with a register that is filled before the first element.
inline constexpr std::size_t known = 0;
/// Operands, [where they differ: a sum of VectorForm::along_*][32, 16, 8 bits in memory].
inline constexpr std::size_t loads = 1;
/// Results, [of each element, combined][32, 16 bits, 8 bits of floats, of integers].
inline constexpr std::size_t stores = 25;
/// Instructions of nodes: simple, multiply, divide, transcendental.
inline constexpr std::size_t instructions = 33;
/// Results that are combined by a simple instruction, by one of the multiply class.
inline constexpr std::size_t combines = 37;
inline constexpr std::size_t accumulates = 39;     ///< results that are combined with what is there
inline constexpr std::size_t masks = 40;           ///< instructions that wait for a mask just made
inline constexpr std::size_t chain = 41;           ///< instructions of the longest chain
inline constexpr std::size_t spread_chain = 42;    ///< of the longest from an operand with one element for each row
inline constexpr std::size_t lives = 43;           ///< of all values together, in latencies of an instruction
inline constexpr std::size_t live = 44;            ///< values at one time, at most
inline constexpr std::size_t constants = 45;       ///< registers that are filled before the first element
inline constexpr std::size_t longest = 46;         ///< life of a value, in latencies of an instruction
inline constexpr std::size_t lanes_combined = 47;  ///< 1: results are combined over the lanes
/// Of float results combined by one of the multiply class: those that are products. The others are sums.
inline constexpr std::size_t products = 48;
constexpr std::size_t load(unsigned where, std::size_t width) { return loads + 3 * where + width; }
constexpr std::size_t store(bool combined, std::size_t width) { return stores + (combined ? 4 : 0) + width; }
}  // namespace vector_count

inline constexpr std::size_t most_vector_dims = 32;

/// Moves of a compute, but for what depends on its extents. Dims are bits, by their numbers.
struct VectorPattern {
  struct Operand {
    std::uint32_t dims = 0;   ///< along which it differs
    std::uint8_t width = 0;   ///< 0: 32 bits in memory, 1: 16, 2: 8
    std::uint16_t chain = 0;  ///< instructions from it to a result, at most
  };
  VectorMoves moves;
  std::vector<Operand> operands;
  std::uint32_t combined = 0;  ///< dims
  bool known() const { return moves.known(); }
};

struct VectorRead {
  DType dtype = DType::f32;
  std::uint32_t dims = 0;  ///< along which it differs
};
struct VectorWrite {
  int node = 0;
  DType dtype = DType::f32;
  std::uint32_t combined = 0;  ///< dims
  Combiner combiner = Combiner::add;
  bool accumulate = false;
};

/// `taken`: functions of which instructions of the user's stand in their place and state their cycles. Not known where
/// there are running sums.
VectorPattern pattern_of(std::span<const VectorNode> nodes, std::span<const VectorRead> reads,
                         std::span<const VectorWrite> writes, const std::vector<Function>& taken = {});

/// Completes a descriptor of kind vector over these extents; `lane`: the dim over the lanes; -1: the innermost one.
void add_moves(Descriptor& descriptor, const VectorPattern& pattern, std::span<const std::int64_t> extents, int lane);

}  // namespace tilesim
