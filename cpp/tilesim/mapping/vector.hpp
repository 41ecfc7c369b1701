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

/// The tiles of a vector kernel: a size per axis of the iteration space, the lane axis, buffers per operand.
struct VectorTiles {
  std::vector<std::int64_t> tiles;
  int lane = 0;
  std::int64_t depth = 2;
  /// Sub-tile size per axis: a tile is loaded, computed on and stored in pieces of this size. Empty: whole tiles.
  std::vector<std::int64_t> sub = {};
  std::int64_t contexts = 1;  ///< contexts per core that share the kernel; each processes some of the tiles
  friend bool operator==(const VectorTiles&, const VectorTiles&) = default;
};

/// An operand, result or scratch tile that a kernel holds on chip.
struct VectorOperand {
  enum class Use : std::uint8_t { load, store, scratch };
  Use use = Use::load;
  DType dtype = DType::f32;
  std::vector<std::int64_t> step;   ///< per axis: elements between adjacent points; 0: spans no such axis
  std::vector<std::int64_t> reach;  ///< per axis: elements that one point reads (windows); empty: 1
  /// Axes of the tensor in memory, minor first: axis of the space (-1: none), and extent.
  std::vector<int> axes;
  Shape extents;
  Shape layout;            ///< padding of the two minor axes, {second minor, minor}; empty: dense
  std::int64_t depth = 2;  ///< of scratch: 0 means the tiles' depth; loads and stores have the tiles' depth
  bool held = true;        ///< false: stored from a buffer that counts elsewhere
  bool between = false;    ///< scratch that exists only if tiles of a row, or parts of a window, stream
  bool certain = true;     ///< all its elements in the space are moved at least once
  /// Along the minor axis in memory: elements between adjacent points (negative: mirrored), position of the first
  /// point, and whether several axes of the space share it other than by whole rows of lanes.
  std::int64_t minor_step = 1, minor_offset = 0;
  bool minor_mixed = false;
  std::int64_t row = 1;  ///< elements of the minor axis that memory moves together (a row of lanes); 1: any
  /// Per tensor axis in memory, minor first: the access by the axes of the space; a tile starts at `step` times its
  /// index. The price then equals the engine's count. Empty: approximated from `axes` and `reach`.
  std::vector<AxisAccess> access;
  Shape dilation, before;  ///< per axis: distance of a window's taps, padding before the first; empty: none
  Shape most;              ///< per axis: most elements of a tile; empty: all
  std::vector<int> apart;  ///< axes of the space that need a separate transfer per position
};

/// One compute of the vector unit on a tile, with its loads and stores.
struct VectorStage {
  using Functions = std::array<std::int32_t, 4>;  ///< per point: simple, multiply, divide, transcendental
  enum class Rows : std::uint8_t { any, whole, streamed };
  Functions functions{};
  VectorPattern pattern{};  ///< over axes of the space, then taps of the window
  /// Functions for the first tile of a row if they differ: it has no earlier tile to combine with.
  std::optional<Functions> first;
  VectorPattern first_pattern{};
  ComputeKind kind = ComputeKind::vector;
  std::optional<DType> dtype;     ///< type of its first input; empty: the problem's
  int reductions = 0, scans = 0;  ///< number of reduced axes, and of scanned axes
  bool points = false;            ///< computes one point per row instead of the whole tile
  bool taps = true;               ///< computes all taps of a window, or the current ones
  Rows rows = Rows::any;          ///< condition: whole rows, or rows whose tiles stream
  int line = -1;                  ///< axis whose lines are reordered; -1: none
  /// Converts positions within a line to positions among all lines; runs only if lines are reordered together.
  bool joins = false;
  bool apart = false;  ///< processes lines separately, because joint indices would overflow
  int sorted = -1;     ///< sorted axis, and the number of elements kept
  std::int64_t kept = 0;
  std::int64_t pass = 1;           ///< number of the streaming pass that runs it; 0: after all passes
  std::vector<int> loads, stores;  ///< indices of operands
};

struct VectorProblem {
  std::string operation;
  std::string kernel;  ///< kinds, functions and types of the fused operations; problems may differ only in this
  Shape space;
  std::vector<bool> reduced;  ///< reduced axes; if one is split, the tiles of a row stream, in `passes`
  std::vector<bool> carried;  ///< axes along which a tile continues the previous tile (scans)
  std::vector<bool> whole;    ///< axes that are never split; empty: none
  std::vector<int> lanes;     ///< possible lane axes, the default first
  std::int64_t passes = 1;
  std::vector<VectorOperand> operands;
  std::array<std::int32_t, 4> functions{};  ///< per point: simple, multiply, divide, transcendental
  std::int64_t points = 1;                  ///< values computed per point of the space; 0: no compute
  Shape taps, tap_tiles;                    ///< extents of a window per axis, and of its parts; empty: none
  bool turns = true;                        ///< whether the cross-lane unit permutes tiles whose elements change lanes
  bool backward = false;                    ///< tiles along the scanned axis run last to first
  std::int64_t bytes_per_point = 0;         ///< bytes on chip besides the operands, per buffer
  std::string whole_tiles;                  ///< the reason why tiles cannot have pieces; empty: they can
  std::int64_t contexts = 1;                ///< contexts per core that share the kernel
  bool ranks = true;                        ///< whether the walk supplies the cycles, by which the search ranks tiles
  bool walks = false;  ///< whether the walk supplies the cycles of a kernel with one load and one store per tile
  std::vector<VectorStage> stages;  ///< in order; empty: one stage with all loads and stores
  int scanned = -1;                 ///< axis of a running sum; -1: none
  DType dtype = DType::f32;
};

std::int64_t vector_scratchpad_bytes(const VectorProblem& problem, const VectorTiles& tiles);
/// Checks tiles; the reason names the broken rule and the missing bytes.
Legality legal(const VectorProblem& problem, const VectorTiles& tiles, const Share& machine);

/// Whether elements change lanes between memory and a tile with lane axis `tiles.lane`, by transposition, mirroring, a
/// shift by part of a row of lanes, or broadcast from one lane. The cross-lane unit permutes such tiles.
bool changes_lanes(const VectorProblem& problem, const VectorOperand& operand, const VectorTiles& tiles);

struct VectorCost {
  /// Off-chip bytes in whole bursts or layout tiles: equal to the engine's count, except for movement kernels.
  std::int64_t read_bytes = 0, written_bytes = 0;
  std::int64_t transfers = 0;
  double vector = 0;  ///< busy cycles of the vector units, summed over all cores
  double compute = 0, memory = 0;
  double cycles = 0;  ///< estimate for ranking
  double bound = 0;   ///< lower bound for all tiles: every operand once at peak bandwidth
  const char* limit = "";
};
/// Closed-form cost. `cycles` come from the walk if there are few enough tiles.
VectorCost price(const VectorProblem& problem, const VectorTiles& tiles, const Share& machine);

/// Cycles by walking the tiles or pieces of the busiest core through load queues, cross-lane and vector unit and store
/// queue, with finite rings, on channels interleaved by address. Bytes and transfers are those of memory fidelity
/// "simple"; traffic of other cores takes an average share of the channels.
double walked_cycles(const VectorProblem& problem, const VectorTiles& tiles, const Share& machine);

struct RankedTiles {
  VectorTiles tiles;
  VectorCost cost;
};
/// The fastest legal choices, best first: a closed form ranks all, and the walk the best of them. The search tries
/// every number of pieces of an axis if there are few choices, otherwise powers of two; every lane axis; one to three
/// buffers; and the best of these with tiles in two or four pieces.
std::vector<RankedTiles> search(const VectorProblem& problem, const Share& machine, std::size_t keep,
                                CancelToken* cancel = nullptr);

}  // namespace tilesim::mapping
