// The loop nest of one product-like operation as a value: tile sizes, loop order, ring depths, with legality and
// traffic.
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

/// Tile size per dim of the operation's Domain, loop order, and ring depth per operand (operands, then result).
struct Nest {
  std::vector<std::int64_t> tiles;
  std::vector<int> order;  ///< dims, outer to inner
  std::vector<std::int64_t> depths;
  bool on_vector = false;  ///< computed by the vector unit instead of the array
  /// Sub-tile size of each dim: a tile is loaded, multiplied and (rows, columns) stored in pieces of this size, so that
  /// the array starts on the first piece while the rest arrives. Empty: tiles arrive whole.
  std::vector<std::int64_t> sub = {};
  std::int64_t contexts = 1;  ///< contexts per core that share the kernel: tiles are those of one context's part
  /// A contracted dim (kernel positions) mapped to the array's rows together with the innermost one (channels), so that
  /// one pass covers both. Their axes are minor in the first operand's tile. -1: each position is a separate pass.
  int pack = -1;
  /// Number of innermost contracted dims that share the array's rows after the cross-lane unit has unfolded the windows
  /// in the scratchpad. 0: none.
  std::int64_t unfold = 0;
  friend bool operator==(const Nest&, const Nest&) = default;
};

/// Most pieces per tile of an operand or result, because a ring counts the commits of a version in flight.
constexpr std::int64_t most_pieces = 32;

/// The rule that this number of contexts breaks; empty if none.
std::string wrong_contexts(std::int64_t contexts, const Share& machine);

/// The problem that a nest solves: the domain, and the types and layouts of the operands.
struct Problem {
  std::string operation;
  Domain domain;
  std::vector<DType> dtypes;                     ///< on-chip types; operands, then result (the accumulator's type)
  std::vector<DType> memory_dtypes;              ///< off-chip types
  std::vector<Shape> shapes;                     ///< shapes of the tensors; operands, then result
  std::vector<std::vector<int>> minor_to_major;  ///< layout per tensor; empty: row-major
  std::vector<int> m_dims, n_dims, k_dims, batch_dims;
  std::string kernel;                 ///< kinds of the fused operations, in order; part of the problem's identity
  bool computed[2] = {false, false};  ///< operands that a prologue computes on chip
  bool on_vector = false;             ///< multiplied and summed on the vector unit instead of the array
  std::int64_t contexts = 1;          ///< contexts per core: the domain is one context's part
  std::int64_t cores = 1;  ///< busy cores: the domain is one core's part, and the machine has its share of the memory
  /// Number of parts per dim, and first position of the priced part. Empty: no dim is split.
  std::vector<std::int64_t> parts = {}, first = {};
  /// Extent of the smallest of these parts, per dim. Empty: no dim is split.
  std::vector<std::int64_t> least = {};
  /// Dims whose loops must enclose those of the contraction: their parts differ, and the progress of a contraction is
  /// counted in loop order.
  std::vector<int> outside_contraction = {};
  bool multicast = false;  ///< one core fetches shared operands and sends them to all: see `sends`
  /// An input of the vector unit: for the epilogue of each finished tile, or to compute a tile of an operand.
  struct Leaf {
    std::size_t of = 2;  ///< operand that it helps to compute; 2: input of the epilogue
    Access access;       ///< per axis of its shape
    Shape shape;
    DType dtype = DType::f32;
    std::vector<int> minor_to_major = {};
  };
  std::vector<Leaf> leaves = {};
  /// A tile that the epilogue stores. Without outputs the sums are stored unchanged.
  struct Output {
    DType dtype = DType::f32;
    std::vector<int> reduced = {};  ///< axes of the result
    Access access = {};             ///< per axis of its shape
    Shape shape = {};
    std::vector<int> minor_to_major = {};
  };
  std::vector<Output> outputs = {};
  /// Bytes of a memory burst, for an operand that is a dense tensor; 0: `taken_along` does not apply.
  std::int64_t burst_bytes[2] = {0, 0};
  std::int64_t epilogue_functions = 0;          ///< vector functions per result element; 0: sums are stored directly
  std::int64_t prologue_functions[2] = {0, 0};  ///< vector functions per element of a computed operand
  /// The dim that enumerates products with a shared first operand; a tile covers all of it. -1: none.
  int siblings = -1;
  int counted_by_data = -1;  ///< a dim with a data-dependent trip count: it always has a loop; -1: none
};

/// Whether a nest is legal, and if not, the reason.
struct Legality {
  bool legal = true;
  std::string reason;
};

/// Two dims of one result axis such that a tile has several elements of the first and only part of the second, so that
/// it would also store elements between its results.
std::optional<std::pair<std::size_t, std::size_t>> stores_between(const Problem& problem, const Nest& nest);

/// Per axis, unused elements at the tensor's end that whole-axis tiles still load: one long run in whole bursts takes
/// no more traffic than several short runs. Empty: none.
std::vector<std::int64_t> taken_along(const Problem& problem, const Nest& nest, std::size_t operand);
/// Number of cores that need the same part of operand a or b, if one core can multicast it; otherwise 1.
std::int64_t sharing(const Problem& problem, std::size_t operand);
/// Whether one core fetches the operand's tiles and sends them to all cores that need them: shared tiles with
/// multicast, if these cores make the same trips. A sent tile passes two further buffers.
bool sends(const Problem& problem, const Nest& nest, std::size_t operand);
constexpr std::int64_t sending_buffers = 2;
/// Number of buffers of a leaf, and of an output tile of the epilogue.
constexpr std::int64_t vector_buffers = 2;
/// Elements of one tile of an operand on chip (the dense region); bytes of all rings in the scratchpad.
std::int64_t tile_elements(const Problem& problem, const Nest& nest, std::size_t operand);
std::int64_t scratchpad_bytes(const Problem& problem, const Nest& nest, const Share& machine);
/// Checks a nest; the reason names the broken rule and the missing bytes.
Legality legal(const Problem& problem, const Nest& nest, const Share& machine);

/// The rule that the packed contraction breaks; empty: none. Packed elements must be contiguous in the tile.
std::string wrong_pack(const Problem& problem, const Nest& nest, const Share& machine);
/// The nest with the packing that saves the most array passes, or with unfolded windows if that is faster; unchanged if
/// neither is legal or saves passes.
Nest packed(const Problem& problem, Nest nest, const Share& machine);
/// Dims that can be packed with whole tiles.
std::vector<int> packable(const Problem& problem, const Share& machine);
/// Axes of the first operand's tile on chip, outer to inner, if `pack` is packed.
std::vector<int> packed_axes(const Problem& problem, int pack);

/// An axis of the unfolded first operand: a separate axis, or the part of one that a single dim moves.
struct UnfoldedAxis {
  std::size_t axis = 0;          ///< axis of the operand
  std::int64_t coefficient = 1;  ///< step of that axis per step of this one
  AxisAccess access = {};
  bool apart = false;  ///< the part that a single dim moves
};
/// Axes of a tile with this many unfolded contracted dims, outer to inner; the unfolded ones are last.
std::vector<UnfoldedAxis> unfolded_axes(const Problem& problem, std::int64_t count);
/// Extents of an unfolded tile, per such axis.
Shape unfolded_extents(const Problem& problem, const Nest& nest);
/// Elements of an unfolded tile; at most 2^56, which does not fit any memory.
std::int64_t unfolded_elements(const Problem& problem, const Nest& nest);
/// Number of buffers of an unfolded tile.
constexpr std::int64_t unfolded_buffers = 2;
/// The rule that the unfolded windows break; empty: none.
std::string wrong_unfold(const Problem& problem, const Nest& nest, const Share& machine);
/// Lower bound on the cycles of the cross-lane unit for all tiles.
double unfolding_cycles(const Problem& problem, const Nest& nest, const Share& machine);
/// The nest with the number of unfolded dims that makes array and cross-lane unit finish soonest; packed if none helps.
Nest unfolded(const Problem& problem, Nest nest, const Share& machine);

/// Number of loads per operand, and total elements: an operand is loaded at the innermost loop that it depends on.
struct Traffic {
  std::vector<std::int64_t> elements;
  std::vector<std::int64_t> transfers;
};
Traffic traffic(const Problem& problem, const Nest& nest);

/// Extent along a dim of a full tile, and of its sub-tiles.
std::int64_t tile_of(const Problem& problem, const Nest& nest, std::size_t dim);
std::int64_t sub_of(const Problem& problem, const Nest& nest, std::size_t dim);
/// The nest with each listed dim's tile split into this many pieces (1: not split), if that has an effect.
Nest in_pieces(const std::vector<std::int64_t>& extents, Nest nest, const std::vector<std::int64_t>& pieces,
               const std::vector<std::int64_t>& units);

/// Estimated cycles: the longer of compute and memory, plus the first load and last store, which nothing overlaps.
/// Infinite if the array does not multiply these types.
double estimated_cycles(const Problem& problem, const Nest& nest, const Share& machine);
/// The lane dim of a product on the vector unit: the one with the fewest ragged registers that is contiguous in the
/// first operand.
int lane_dim(const Problem& problem, const Nest& nest, const Share& machine);

/// A nest that fills half the scratchpad (the other half is the second buffer) and keeps arrays busy. Throws
/// Unsupported with operation and bytes if even unit tiles are illegal.
Nest heuristic(const Problem& problem, const Share& machine);

/// Nests given by the user, by operation name.
using Table = std::map<std::string, Nest>;

}  // namespace tilesim::mapping
