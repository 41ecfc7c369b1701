// Tiles of kernels on the vector unit: choices, legality, time, and the search for the fastest.
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

/// The tiles of a vector kernel: a size per axis of the iteration space, the lane axis, and the buffers per operand.
struct VectorTiles {
  std::vector<std::int64_t> tiles;
  int lane = 0;
  std::int64_t depth = 2;
  /// Size of a piece (sub-tile) per axis: a tile is loaded, computed and stored in pieces. Empty: tiles have no pieces.
  std::vector<std::int64_t> sub = {};
  std::int64_t contexts = 1;  ///< contexts per core that share the kernel; each processes some of the tiles
  friend bool operator==(const VectorTiles&, const VectorTiles&) = default;
};

/// An operand, result or scratch tile that a kernel has on chip.
struct VectorOperand {
  enum class Use : std::uint8_t { load, store, scratch };
  Use use = Use::load;
  DType dtype = DType::f32;
  std::vector<std::int64_t> step;   ///< per axis: elements between adjacent points; 0: independent of the axis
  std::vector<std::int64_t> reach;  ///< per axis: elements that one point reads (windows); empty: 1
  /// Axes of the tensor in memory, minor first: axis of the space (-1: none), and extent.
  std::vector<int> axes;
  Shape extents;
  Shape layout;            ///< layout tile {second minor, minor} to which these axes are padded; empty: dense
  std::int64_t depth = 2;  ///< buffers of scratch, 0: as the tiles; loads and stores always as the tiles
  bool held = true;        ///< false: stored from a buffer of another operand
  bool between = false;    ///< scratch that exists only if tiles of a row, or parts of a window, stream
  bool certain = true;     ///< all its elements in the space move at least once
  /// For the minor axis in memory: elements between adjacent points (negative: mirrored), position of the first point,
  /// and whether several axes of the space share the minor axis, except by full rows of lanes.
  std::int64_t minor_step = 1, minor_offset = 0;
  bool minor_mixed = false;
  std::int64_t row = 1;  ///< number of minor elements that memory moves together (a row of lanes); 1: any
  /// Per tensor axis in memory, minor first: its access by the axes of the space; a tile starts at `step` times its
  /// index. With accesses, the price equals the engine's bytes. Empty: approximated from `axes` and `reach`.
  std::vector<AxisAccess> access;
  Shape dilation, before;  ///< per axis of a window: distance of taps, padding before the first; empty: none
  Shape most;              ///< per axis: most elements of a tile; empty: no limit
  std::vector<int> apart;  ///< axes of the space with a separate transfer per position
};

/// One compute of the vector unit on a tile, with its loads and stores.
struct VectorStage {
  using Functions = std::array<std::int32_t, 4>;  ///< per point: simple, multiply, divide, transcendental
  enum class Rows : std::uint8_t { any, whole, streamed };
  Functions functions{};
  VectorPattern pattern{};  ///< over axes of the space, then taps of the window
  /// Functions for the first tile of a row, if they differ because no earlier tile exists to combine with.
  std::optional<Functions> first;
  VectorPattern first_pattern{};
  ComputeKind kind = ComputeKind::vector;
  std::optional<DType> dtype;     ///< type of the first input; empty: the problem's type
  int reductions = 0, scans = 0;  ///< number of reduced axes; of scanned axes
  bool points = false;            ///< computes one point per row instead of the full tile
  bool taps = true;               ///< computes taps of a window: all, or those of the current part
  Rows rows = Rows::any;          ///< condition: rows are not split, or the tiles of a row stream
  int line = -1;                  ///< axis whose lines are reordered; -1: none
  /// Converts positions within a line to positions among all lines. Runs only if one gather reorders all lines.
  bool joins = false;
  bool apart = false;  ///< reorders lines separately, because joint indices would overflow
  int sorted = -1;     ///< sorted axis, and number of elements that a sort keeps
  std::int64_t kept = 0;
  std::int64_t pass = 1;           ///< number of the streaming pass in which it runs; 0: after all passes
  std::vector<int> loads, stores;  ///< indices of operands
};

struct VectorProblem {
  std::string operation;
  std::string kernel;  ///< kinds, functions and types of the fused operations; part of the problem's identity
  Shape space;
  std::vector<bool> reduced;  ///< reduced axes; if one is split, the tiles of a row stream in `passes` passes
  std::vector<bool> carried;  ///< axes along which a tile continues the previous tile (scans)
  std::vector<bool> whole;    ///< axes that are never split; empty: none
  std::vector<int> lanes;     ///< possible lane axes; the first is the default
  std::int64_t passes = 1;
  std::vector<VectorOperand> operands;
  std::array<std::int32_t, 4> functions{};  ///< per point: simple, multiply, divide, transcendental
  std::int64_t points = 1;                  ///< values computed per point of the space; 0: nothing is computed
  Shape taps, tap_tiles;                    ///< extents of a window per axis, and of its parts; empty: no window
  bool turns = true;                        ///< whether the cross-lane unit permutes tiles whose elements change lanes
  bool backward = false;                    ///< tiles along the scanned axis run from last to first
  std::int64_t bytes_per_point = 0;         ///< bytes on chip in addition to the operands, per buffer
  std::string whole_tiles;                  ///< why tiles cannot have pieces; empty: they can
  std::int64_t contexts = 1;                ///< contexts per core that share the kernel
  bool ranks = true;                        ///< the walk supplies the cycles by which the search ranks tiles
  bool walks = false;               ///< the walk supplies the cycles of a kernel with one load and one store per tile
  std::vector<VectorStage> stages;  ///< in order; empty: one stage with all loads and stores
  int scanned = -1;                 ///< axis of a running sum; -1: none
  DType dtype = DType::f32;
};

std::int64_t vector_scratchpad_bytes(const VectorProblem& problem, const VectorTiles& tiles);
/// Checks tiles. The reason names the violated rule and the number of missing bytes.
Legality legal(const VectorProblem& problem, const VectorTiles& tiles, const Share& machine);

/// Whether elements change lanes between memory and a tile with lane axis `tiles.lane`: by transposition, mirroring, a
/// shift by part of a row of lanes, or broadcast from one lane. The cross-lane unit permutes such tiles.
bool changes_lanes(const VectorProblem& problem, const VectorOperand& operand, const VectorTiles& tiles);

struct VectorCost {
  /// Off-chip bytes in full bursts or layout tiles; equal to the engine's, except for movement kernels.
  std::int64_t read_bytes = 0, written_bytes = 0;
  std::int64_t transfers = 0;
  double vector = 0;  ///< busy cycles of the vector units, summed over all cores
  double compute = 0, memory = 0;
  double cycles = 0;  ///< estimate for ranking
  double bound = 0;   ///< lower bound for all tiles: each operand moves once at peak bandwidth
  const char* limit = "";
};
/// The closed-form cost. If there are few enough tiles, `cycles` come from the walk.
VectorCost price(const VectorProblem& problem, const VectorTiles& tiles, const Share& machine);

/// Cycles by a walk of the busiest core's tiles or pieces through load queues, cross-lane unit, vector unit and store
/// queue with finite rings, on channels interleaved by address. Bytes and transfers are those of memory fidelity
/// "simple"; other cores use an average share of the channels.
double walked_cycles(const VectorProblem& problem, const VectorTiles& tiles, const Share& machine);

struct RankedTiles {
  VectorTiles tiles;
  VectorCost cost;
};
/// The fastest legal choices, the best first. A closed form ranks all candidates, and the walk ranks the best of them.
/// Candidates have every number of tiles per axis (powers of two if there are many), every lane axis and one to three
/// buffers; the best are also tried with two or four pieces per tile.
std::vector<RankedTiles> search(const VectorProblem& problem, const Share& machine, std::size_t keep,
                                CancelToken* cancel = nullptr);

}  // namespace tilesim::mapping
