// Tiles of kernels on the vector unit: the choices, their legality and time, and the search for the best.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tilesim/base/cancel.hpp"
#include "tilesim/mapping/nest.hpp"
#include "tilesim/tile/tile.hpp"
#include "tilesim/tile/vector_work.hpp"

namespace tilesim::mapping {

/// The tiles of a vector kernel: a size per axis of the iteration space, the axis over the lanes, buffers per operand.
struct VectorTiles {
  std::vector<std::int64_t> tiles;
  int lane = 0;
  std::int64_t depth = 2;
  /// Sub-tile size per axis: a tile is loaded, computed on and stored in pieces of this size. Empty: whole tiles.
  std::vector<std::int64_t> sub = {};
  std::int64_t contexts = 1;  ///< of a core, that share the kernel; each processes some of the tiles
  friend bool operator==(const VectorTiles&, const VectorTiles&) = default;
};

/// An operand, result or scratch tile that a kernel holds on chip.
struct VectorOperand {
  enum class Use : std::uint8_t { load, store, scratch };
  Use use = Use::load;
  DType dtype = DType::f32;
  std::vector<std::int64_t> step;   ///< per axis: elements from one point to the next; 0: it does not span the axis
  std::vector<std::int64_t> reach;  ///< per axis: elements that one point reads (windows); empty: 1
  /// Axes of the tensor in memory, minor first: axis of the space (-1: none), and extent.
  std::vector<int> axes;
  Shape extents;
  Shape layout;            ///< the two minor axes are padded to these, {second minor, minor}; empty: dense
  std::int64_t depth = 2;  ///< of scratch, 0: the tiles' depth; loads and stores have the tiles' depth
  bool held = true;        ///< false: stored from a buffer that is counted already
  bool between = false;    ///< scratch that is there only where the tiles of a row, or parts of a window, stream by
  bool certain = true;     ///< all its elements within the space are moved at least once
  /// Along the minor axis in memory: elements from one point to the next (negative: mirrored), the first point's place,
  /// and whether several axes of the space lie along it, other than by whole rows of lanes.
  std::int64_t minor_step = 1, minor_offset = 0;
  bool minor_mixed = false;
  std::int64_t row = 1;  ///< elements along the minor axis that memory moves together, a row of lanes; 1: any
  /// Of each axis of the tensor in memory, minor first: by the axes of the space, where the place of a tile is `step`
  /// times its own. What is priced is then exactly what the engine counts. Empty: as `axes` and `reach` say, about.
  std::vector<AxisAccess> access;
  Shape dilation, before;  ///< per axis: from one tap of a window to the next, padding before the first; empty: none
  Shape most;              ///< per axis: no more elements of a tile than these; empty: all
  std::vector<int> apart;  ///< axes of the space: each position along them comes in a separate transfer
};

/// One compute of the vector unit on a tile, with its loads and stores.
struct VectorStage {
  using Functions = std::array<std::int32_t, 4>;  ///< per point: simple, multiply, divide, transcendental
  enum class Rows : std::uint8_t { any, whole, streamed };
  Functions functions{};
  VectorPattern pattern{};  ///< over the axes of the space, then of the window's taps
  /// Pattern of the first tile of a row if it differs, because no earlier result is combined with it.
  std::optional<Functions> first;
  VectorPattern first_pattern{};
  ComputeKind kind = ComputeKind::vector;
  std::optional<DType> dtype;     ///< of what it reads first; none: the problem's
  int reductions = 0, scans = 0;  ///< of the reduced axes, or the scanned one
  bool points = false;            ///< on one point per row, not on the whole tile
  bool taps = true;               ///< on all taps of a window, or those at hand
  Rows rows = Rows::any;          ///< condition: rows are whole, or their tiles stream by
  int line = -1;                  ///< axis along which elements of each line are reordered; -1: none
  /// Places in lines become those among all of them: only where lines are put into their orders together.
  bool joins = false;
  bool apart = false;  ///< lines are processed one by one, for lack of room for joint indices
  int sorted = -1;     ///< axis that is sorted, and how many elements of it are kept
  std::int64_t kept = 0;
  std::int64_t pass = 1;           ///< in which, where the tiles of a row stream by; 0: after all of them
  std::vector<int> loads, stores;  ///< operands
};

struct VectorProblem {
  std::string operation;
  std::string kernel;  ///< kinds, functions and types of the fused operations; problems may differ only in this
  Shape space;
  std::vector<bool> reduced;  ///< axes that are combined; where one is cut, the tiles of a row stream by, in `passes`
  std::vector<bool> carried;  ///< axes along which a tile continues the previous one (scans)
  std::vector<bool> whole;    ///< axes that are never cut; empty: none
  std::vector<int> lanes;     ///< axes that may lie over the lanes; the first is the usual one
  std::int64_t passes = 1;
  std::vector<VectorOperand> operands;
  std::array<std::int32_t, 4> functions{};  ///< per point: simple, multiply, divide, transcendental
  std::int64_t points = 1;                  ///< computed per point of the space; 0: nothing is computed
  Shape taps, tap_tiles;             ///< of a window, per axis, and of the parts that it is cut into; empty: none
  bool turns = true;                 ///< whether the cross-lane unit takes tiles whose elements change lanes
  bool backward = false;             ///< the tiles along the scanned axis, last to first
  std::int64_t bytes_per_point = 0;  ///< on chip beside the operands, per buffer
  std::string whole_tiles;           ///< reason why tiles cannot come in pieces; empty: they can
  std::int64_t contexts = 1;         ///< of a core, that share the kernel
  bool ranks = true;                 ///< whether the tiles are loaded, computed on and stored one by one
  bool walks = false;                ///< the same of a kernel that moves data: one load and one store per tile
  std::vector<VectorStage> stages;   ///< in order; empty: one, of all loads and stores
  int scanned = -1;                  ///< axis of a running sum; -1: none
  DType dtype = DType::f32;
};

std::int64_t vector_scratchpad_bytes(const VectorProblem& problem, const VectorTiles& tiles);
/// Checks tiles; the reason states the broken rule and by how many bytes.
Legality legal(const VectorProblem& problem, const VectorTiles& tiles, const Share& machine);

/// Whether elements change lanes between memory and a tile whose `tiles.lane` lies over the lanes: they are transposed,
/// mirrored, shifted by part of a row of lanes, or spread from one lane to all. The cross-lane unit does that.
bool changes_lanes(const VectorProblem& problem, const VectorOperand& operand, const VectorTiles& tiles);

struct VectorCost {
  /// Off chip, whole bursts or layout tiles: what the engine counts, but of kernels that move data about.
  std::int64_t read_bytes = 0, written_bytes = 0;
  std::int64_t transfers = 0;
  double vector = 0;  ///< busy cycles of the vector units, summed over all cores
  double compute = 0, memory = 0;
  double cycles = 0;  ///< an estimate for ranking
  double bound = 0;   ///< lower bound of all tiles: every operand once at the peak bandwidth
  const char* limit = "";
};
/// Closed-form cost; `cycles` come from the walk if the tiles can be walked.
VectorCost price(const VectorProblem& problem, const VectorTiles& tiles, const Share& machine);

/// Cycles by walking the tiles, or their pieces, of the busiest core: each through load queues, cross-lane and vector
/// unit and the store queue, with finite rings, on channels that take turns by address. Bytes and transfers as in
/// memory of fidelity "simple"; what other cores move takes its mean share of the channels.
double walked_cycles(const VectorProblem& problem, const VectorTiles& tiles, const Share& machine);

struct RankedTiles {
  VectorTiles tiles;
  VectorCost cost;
};
/// The fastest legal choices, best first, by a closed form, and the best of these by the walk. The search tries every
/// number of pieces of an axis if there are few choices, otherwise powers of two; every lane axis; one to three
/// buffers; and the best of these with tiles in two or four pieces.
std::vector<RankedTiles> search(const VectorProblem& problem, const Share& machine, std::size_t keep,
                                CancelToken* cancel = nullptr);

}  // namespace tilesim::mapping
