// The loop nest of a product-like operation: tile sizes, loop order and ring depths; with legality and traffic.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tilesim/base/dtype.hpp"
#include "tilesim/graph/kind.hpp"
#include "tilesim/machine/share.hpp"

namespace tilesim::mapping {

/// Tile size per dim of the operation's Domain, loop order, and ring depth per operand and result.
struct Nest {
  std::vector<std::int64_t> tiles;
  std::vector<int> order;  ///< dims, outer to inner
  std::vector<std::int64_t> depths;
  bool on_vector = false;  ///< the vector unit computes, instead of the array
  /// Size of a piece (sub-tile) per dim: a tile is loaded, multiplied and (rows, columns) stored in pieces, so that the
  /// array can start on the first piece while others arrive. Empty: tiles have no pieces.
  std::vector<std::int64_t> sub = {};
  std::int64_t contexts = 1;  ///< contexts per core that share the kernel; tiles are those of one context's part
  /// A contracted dim (kernel positions) that shares the array's rows with the innermost one (channels), so that one
  /// pass covers both. Both must be minor in the first operand's tile. -1: each position is a separate pass.
  int pack = -1;
  /// Number of innermost contracted dims that share the array's rows after the cross-lane unit has unfolded the windows
  /// in the scratchpad; 0: no unfolding.
  std::int64_t unfold = 0;
  friend bool operator==(const Nest&, const Nest&) = default;
};

/// Most pieces per tile of an operand or result: a ring counts the commits of a version in flight.
constexpr std::int64_t most_pieces = 32;

/// The rule that this number of contexts violates; empty if it is legal.
std::string wrong_contexts(std::int64_t contexts, const Share& machine);

/// The problem that a nest solves: the domain, and types and layouts of the operands.
struct Problem {
  std::string operation;
  Domain domain;
  std::vector<DType> dtypes;                     ///< on-chip types: operands, then result (type of the accumulator)
  std::vector<DType> memory_dtypes;              ///< off-chip types
  std::vector<Shape> shapes;                     ///< shapes of the tensors: operands, then result
  std::vector<std::vector<int>> minor_to_major;  ///< layout per tensor; empty: row-major
  std::vector<int> m_dims, n_dims, k_dims, batch_dims;
  std::string kernel;                 ///< kinds of the fused operations in order; part of the problem's identity
  bool computed[2] = {false, false};  ///< whether a prologue computes the operand on chip
  bool on_vector = false;             ///< the vector unit multiplies and sums, instead of the array
  std::int64_t contexts = 1;          ///< contexts per core; the domain is one context's part
  std::int64_t cores = 1;  ///< busy cores; the domain is one core's part, and the machine has its share of the memory
  /// Per dim: number of parts, and first position of the part in question. Empty: no dim is split.
  std::vector<std::int64_t> parts = {}, first = {};
  /// Per dim: extent of the smallest part. Empty: no dim is split.
  std::vector<std::int64_t> least = {};
  /// Dims whose loops must be outside the contraction's loops, because their parts differ and a contraction's progress
  /// is counted in loop order.
  std::vector<int> outside_contraction = {};
  bool multicast = false;  ///< one core fetches shared operands and sends them to all: see `sends`
  /// An input of the vector unit, for the epilogue of a finished tile or for the prologue of an operand.
  struct Leaf {
    std::size_t of = 2;  ///< operand whose prologue reads it; 2: the epilogue reads it
    Access access;       ///< one entry per axis of `shape`
    Shape shape;
    DType dtype = DType::f32;
    std::vector<int> minor_to_major = {};
  };
  std::vector<Leaf> leaves = {};
  /// A tile that the epilogue stores. Without outputs, the sums are stored unchanged.
  struct Output {
    DType dtype = DType::f32;
    std::vector<int> reduced = {};  ///< axes of the result that it reduces
    Access access = {};             ///< one entry per axis of `shape`
    Shape shape = {};
    std::vector<int> minor_to_major = {};
  };
  std::vector<Output> outputs = {};
  /// Bytes of a memory burst if the operand is a dense tensor; 0: `taken_along` does not apply.
  std::int64_t burst_bytes[2] = {0, 0};
  std::int64_t epilogue_functions = 0;          ///< vector functions per result element; 0: sums are stored directly
  std::int64_t prologue_functions[2] = {0, 0};  ///< vector functions per element of a computed operand
  /// The dim that numbers products with a shared first operand; a tile covers all of them. -1: none.
  int siblings = -1;
  int counted_by_data = -1;  ///< a dim with data-dependent trip count, which always has a loop; -1: none
};

/// Whether a nest is legal; if not, the reason.
struct Legality {
  bool legal = true;
  std::string reason;
};

/// Two dims of one result axis for which a store would also overwrite elements between the results, because a tile has
/// several elements of the first dim and only part of the second. Empty: no such dims.
std::optional<std::pair<std::size_t, std::size_t>> stores_between(const Problem& problem, const Nest& nest);

/// Per axis: unused elements at the tensor's end that full-axis tiles also load, because one long run in full bursts
/// moves no more bytes than several short runs. Empty: no such axis.
std::vector<std::int64_t> taken_along(const Problem& problem, const Nest& nest, std::size_t operand);
/// Number of cores that need the same part of operand a or b, if one core can multicast it; else 1.
std::int64_t sharing(const Problem& problem, std::size_t operand);
/// Whether one core fetches the operand's tiles and sends them to all cores that need them. This requires multicast,
/// shared tiles, and equal trips of these cores. A sent tile uses two additional buffers.
bool sends(const Problem& problem, const Nest& nest, std::size_t operand);
constexpr std::int64_t sending_buffers = 2;
/// Number of buffers of a leaf or of an epilogue's output tile.
constexpr std::int64_t vector_buffers = 2;
/// `tile_elements`: elements of an operand's tile on chip; `scratchpad_bytes`: bytes of all rings in the scratchpad.
std::int64_t tile_elements(const Problem& problem, const Nest& nest, std::size_t operand);
std::int64_t scratchpad_bytes(const Problem& problem, const Nest& nest, const Share& machine);
/// Checks a nest. The reason names the violated rule and the number of missing bytes.
Legality legal(const Problem& problem, const Nest& nest, const Share& machine);

/// The rule that the packed contraction violates; empty if legal. Packed elements must be contiguous in the tile.
std::string wrong_pack(const Problem& problem, const Nest& nest, const Share& machine);
/// The nest with the packing that saves the most array passes, or with unfolded windows if these are faster. Unchanged
/// if neither is legal or saves passes.
Nest packed(const Problem& problem, Nest nest, const Share& machine);
/// Dims that can be packed if tiles have no pieces.
std::vector<int> packable(const Problem& problem, const Share& machine);
/// Axes of the first operand's tile on chip, outer to inner, if dim `pack` is packed.
std::vector<int> packed_axes(const Problem& problem, int pack);

/// An axis of the unfolded first operand: an axis of the operand, or the part of an axis that one dim moves.
struct UnfoldedAxis {
  std::size_t axis = 0;          ///< axis of the operand
  std::int64_t coefficient = 1;  ///< step along that axis per step along this one
  AxisAccess access = {};
  bool apart = false;  ///< whether it is the part that one dim moves
};
/// Axes of a tile with `count` unfolded contracted dims, outer to inner; the unfolded dims are last.
std::vector<UnfoldedAxis> unfolded_axes(const Problem& problem, std::int64_t count);
/// Extents of an unfolded tile on these axes.
Shape unfolded_extents(const Problem& problem, const Nest& nest);
/// Elements of an unfolded tile, at most 2^56, which exceeds every memory.
std::int64_t unfolded_elements(const Problem& problem, const Nest& nest);
/// Number of buffers of an unfolded tile.
constexpr std::int64_t unfolded_buffers = 2;
/// The rule that the unfolded windows violate; empty if legal.
std::string wrong_unfold(const Problem& problem, const Nest& nest, const Share& machine);
/// Lower bound on the cycles of the cross-lane unit for all tiles.
double unfolding_cycles(const Problem& problem, const Nest& nest, const Share& machine);
/// The nest with the number of unfolded dims for which array and cross-lane unit finish first; packed if none is
/// faster.
Nest unfolded(const Problem& problem, Nest nest, const Share& machine);

/// Numbers of loads per operand, and elements in total. The innermost loop on which an operand depends loads it.
struct Traffic {
  std::vector<std::int64_t> elements;
  std::vector<std::int64_t> transfers;
};
Traffic traffic(const Problem& problem, const Nest& nest);

/// Extent of a full tile along a dim, and of its sub-tiles.
std::int64_t tile_of(const Problem& problem, const Nest& nest, std::size_t dim);
std::int64_t sub_of(const Problem& problem, const Nest& nest, std::size_t dim);
/// The nest with each listed dim's tile split into this many pieces (1: none), if the split has an effect.
Nest in_pieces(const std::vector<std::int64_t>& extents, Nest nest, const std::vector<std::int64_t>& pieces,
               const std::vector<std::int64_t>& units);

/// Estimated cycles: the longer of compute and memory time, plus the first load and the last store, which nothing
/// overlaps. Infinite if the array does not multiply these types.
double estimated_cycles(const Problem& problem, const Nest& nest, const Share& machine);
/// The lane dim of a product on the vector unit: of the dims contiguous in the first operand, the dim with the fewest
/// partly filled registers.
int lane_dim(const Problem& problem, const Nest& nest, const Share& machine);

/// A nest that fills half the scratchpad (the other half is for second buffers) and keeps arrays busy. Throws
/// Unsupported with operation and bytes if even tiles of one element are illegal.
Nest heuristic(const Problem& problem, const Share& machine);

/// Nests that the user gives, by operation name.
using Table = std::map<std::string, Nest>;

}  // namespace tilesim::mapping
