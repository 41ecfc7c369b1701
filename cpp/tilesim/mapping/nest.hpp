// The loop nest of one product-like operation as a value: tile sizes, order, residency and buffering, with its legality
// and traffic.
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

/// Tile size of each dim of the operation's Domain, loops outer to inner, ring depth per operand (operands then
/// result).
struct Nest {
  std::vector<std::int64_t> tiles;
  std::vector<int> order;  ///< dims, outer to inner
  std::vector<std::int64_t> depths;
  bool on_vector = false;  ///< computed by the vector unit instead of the array
  /// Sub-tile size of each dim: a tile is loaded, multiplied and (rows, columns) stored in pieces of this size, so that
  /// the array starts on the first piece while the rest arrives. Empty: tiles arrive whole.
  std::vector<std::int64_t> sub = {};
  std::int64_t contexts = 1;  ///< of a core, that share the kernel: tiles are those of one context's part
  /// A contracted dim (kernel positions) that lies over the array's rows together with the innermost one (channels):
  /// both go through in one pass. The first operand's tile has their axes minor. -1: each position is a pass of its
  /// own.
  int pack = -1;
  /// So many of the innermost contracted dims lie over the array's rows together, where the cross-lane unit has put
  /// them side by side: windows unfolded in the scratchpad. 0: none.
  std::int64_t unfold = 0;
  friend bool operator==(const Nest&, const Nest&) = default;
};

/// Pieces that one tile of an operand or result may have: commits of a version in flight are counted in a ring.
constexpr std::int64_t most_pieces = 32;

/// The rule that a number of contexts breaks; empty: none.
std::string wrong_contexts(std::int64_t contexts, const Share& machine);

/// The problem that a nest solves: the domain, and the types and layouts of the operands.
struct Problem {
  std::string operation;
  Domain domain;
  std::vector<DType> dtypes;                     ///< as held on chip; operands then result (the accumulator's type)
  std::vector<DType> memory_dtypes;              ///< as stored off chip
  std::vector<Shape> shapes;                     ///< of the tensors; operands then result
  std::vector<std::vector<int>> minor_to_major;  ///< layout per tensor; empty: row-major
  std::vector<int> m_dims, n_dims, k_dims, batch_dims;
  std::string kernel;                 ///< kinds of the fused operations, in order; problems may differ only in this
  bool computed[2] = {false, false};  ///< an operand, by a prologue on chip
  bool on_vector = false;             ///< multiplied and summed on the vector unit instead of the array
  std::int64_t contexts = 1;          ///< of a core: the domain is one context's part
  std::int64_t cores = 1;  ///< at work: the domain is one core's part, and the machine has its share of the memory
  /// If several cores share the work, per dim: the number of parts, and the start of the part that is estimated. Empty:
  /// no dim is split.
  std::vector<std::int64_t> parts = {}, first = {};
  /// Extent of the smallest of these parts, per dim. Empty: no dim is split.
  std::vector<std::int64_t> least = {};
  /// Dims whose loops go around those of the contraction: parts of them differ, and what a contraction has passed is
  /// counted in the order of its loops.
  std::vector<int> outside_contraction = {};
  bool multicast = false;  ///< one core fetches shared operands and sends them to all: see `sends`
  /// An input of the vector unit: for the epilogue of each finished tile, or to compute a tile of an operand.
  struct Leaf {
    std::size_t of = 2;  ///< the operand that it is computed into; 2: of the epilogue
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
  /// Bursts of the memory, for an operand that is a dense tensor as it lies; 0: `taken_along` is nothing.
  std::int64_t burst_bytes[2] = {0, 0};
  std::int64_t epilogue_functions = 0;  ///< vector functions per result element; 0: stored straight from the sums
  std::int64_t prologue_functions[2] = {0, 0};  ///< vector functions per element of an operand that is computed
  /// The dim along which products of one first operand lie: second operands and sums of all are one tile. -1: none.
  int siblings = -1;
  int counted_by_data = -1;  ///< a dim whose trips are data: its loop is there whatever its tile; -1: none
};

/// Whether a nest is legal, with the reason if not.
struct Legality {
  bool legal = true;
  std::string reason;
};

/// Two dims of one axis of the result of which a tile has several of the first and not all of the second: it would
/// store what lies between its results.
std::optional<std::pair<std::size_t, std::size_t>> stores_between(const Problem& problem, const Nest& nest);

/// Elements, along each axis, of the tensor's end that nothing reads and that tiles of the whole axis take along all
/// the same: in whole bursts, one long run of memory is no more than all the short ones between them. Empty: nothing
/// is.
std::vector<std::int64_t> taken_along(const Problem& problem, const Nest& nest, std::size_t operand);
/// Number of cores that need the same part of operand a or b, if one of them can send it to all. 1: not shared.
std::int64_t sharing(const Problem& problem, std::size_t operand);
/// Whether one core fetches the operand's tiles and sends them to all that need them: under a multicast those that are
/// shared, where all these cores make the same trips. A tile that is sent passes two further buffers on the way.
bool sends(const Problem& problem, const Nest& nest, std::size_t operand);
constexpr std::int64_t sending_buffers = 2;
/// Buffers of a leaf, and of a tile that the epilogue stores.
constexpr std::int64_t vector_buffers = 2;
/// Bytes of one buffer of operand `i` under the nest (slot layout: the region of the operand, dense).
std::int64_t tile_elements(const Problem& problem, const Nest& nest, std::size_t operand);
std::int64_t scratchpad_bytes(const Problem& problem, const Nest& nest, const Share& machine);
/// Checks a nest; the reason states the broken rule and by how many bytes.
Legality legal(const Problem& problem, const Nest& nest, const Share& machine);

/// The rule that the packed contraction breaks; empty: none. Packed elements must be contiguous in the tile.
std::string wrong_pack(const Problem& problem, const Nest& nest, const Share& machine);
/// The nest with the packing that saves most passes through the array, or with windows unfolded where that is faster
/// still; neither where neither is legal or saves any.
Nest packed(const Problem& problem, Nest nest, const Share& machine);
/// Dims that can be packed where tiles are whole.
std::vector<int> packable(const Problem& problem, const Share& machine);
/// Axes of the first operand, outer to inner, as a tile of it lies on chip when `pack` is packed.
std::vector<int> packed_axes(const Problem& problem, int pack);

/// An axis of the first operand as it lies unfolded: a separate axis, or the part of one that a single dim moves.
struct UnfoldedAxis {
  std::size_t axis = 0;          ///< of the operand
  std::int64_t coefficient = 1;  ///< positions of that axis per step along this one
  AxisAccess access = {};
  bool apart = false;  ///< one dim's part
};
/// Of a tile with so many contracted dims side by side, outer to inner: these come last.
std::vector<UnfoldedAxis> unfolded_axes(const Problem& problem, std::int64_t count);
/// Of an unfolded tile, per such axis.
Shape unfolded_extents(const Problem& problem, const Nest& nest);
/// Of a tile; tiles of more than 2^56 count as 2^56, which fits nowhere.
std::int64_t unfolded_elements(const Problem& problem, const Nest& nest);
/// Buffers of an unfolded tile.
constexpr std::int64_t unfolded_buffers = 2;
/// The rule that the unfolded windows break; empty: none.
std::string wrong_unfold(const Problem& problem, const Nest& nest, const Share& machine);
/// Lower bound on the cycles in which the cross-lane unit unfolds all tiles.
double unfolding_cycles(const Problem& problem, const Nest& nest, const Share& machine);
/// The nest with as many dims unfolded as make array and cross-lane unit soonest done; as packed where none does.
Nest unfolded(const Problem& problem, Nest nest, const Share& machine);

/// How often each operand is loaded and how many elements in all: an operand is fetched at the innermost loop it
/// depends on.
struct Traffic {
  std::vector<std::int64_t> elements;
  std::vector<std::int64_t> transfers;
};
Traffic traffic(const Problem& problem, const Nest& nest);

/// Extent of a full tile along a dim, and of its pieces.
std::int64_t tile_of(const Problem& problem, const Nest& nest, std::size_t dim);
std::int64_t sub_of(const Problem& problem, const Nest& nest, std::size_t dim);
/// The nest with every listed dim's tile in so many pieces (1: whole), as far as that changes anything.
Nest in_pieces(const std::vector<std::int64_t>& extents, Nest nest, const std::vector<std::int64_t>& pieces,
               const std::vector<std::int64_t>& units);

/// Estimated cycles: the longer of compute and memory, plus the first load and last store that nothing overlaps.
/// Infinite where the array does not multiply these types.
double estimated_cycles(const Problem& problem, const Nest& nest, const Share& machine);
/// The dim that lies over the lanes of a product on the vector unit: where the fewest registers are ragged, and
/// neighbours along it are neighbours in the first operand.
int lane_dim(const Problem& problem, const Nest& nest, const Share& machine);

/// Fills half the scratchpad (the other half is the second buffer), keeping arrays busy. Never fails when a legal nest
/// exists with unit tiles; otherwise Unsupported naming operation and bytes.
Nest heuristic(const Problem& problem, const Share& machine);

/// Tile sizes given from outside, by operation name.
using Table = std::map<std::string, Nest>;

}  // namespace tilesim::mapping
