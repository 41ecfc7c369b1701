// What one tile of a vector kernel moves and computes, for the closed form and for the walk.
#pragma once

#include <cstdint>
#include <vector>

#include "tilesim/mapping/vector.hpp"
#include "tilesim/tile/tile.hpp"

namespace tilesim::mapping {

/// The product, or a count beyond every memory.
inline std::int64_t saturating(std::int64_t a, std::int64_t b) {
  constexpr std::int64_t most = INT64_MAX / 8;
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) || product > most ? most : product;
}

struct Moved { std::int64_t address = 0, bytes = 0; };  ///< from the tensor's beginning

/// Bits from one element of the tensor to the next along each of its axes, minor first.
std::vector<std::int64_t> strides_of(const VectorOperand& operand);

/// What memory moves for the tile that starts at a point, by the engine's rule: whole rows of lanes and tiles of the
/// layout, or contiguous runs in whole bursts.
Moved moved(const VectorOperand& operand, const std::vector<std::int64_t>& strides,
            const std::vector<std::int64_t>& start, const std::vector<std::int64_t>& size, const Share& machine);

/// Elements on chip for a tile of this size.
std::int64_t held_elements(const VectorProblem& problem, const VectorOperand& operand,
                           const std::vector<std::int64_t>& size);
/// Bytes that pass the cross-lane unit for a tile of this size; those spread to all lanes fill a row of lanes each.
std::int64_t shuffled_bytes(const VectorProblem& problem, const VectorOperand& operand, const VectorTiles& tiles,
                            const std::vector<std::int64_t>& size, const Share& machine);

/// The problem's stages, or the one that stands for them.
std::vector<VectorStage> stages_of(const VectorProblem& problem);
/// Of one stage on a tile of this size; nothing where nothing is computed.
TileLatency stage_latency(const VectorProblem& problem, const VectorStage& stage, int lane,
                          const std::vector<std::int64_t>& size, LatencyModel& latency);

/// What is the same for all tiles.
struct Prepared {
  std::vector<VectorStage> stages;
  std::vector<std::vector<std::int64_t>> strides;  ///< per operand
};
Prepared prepared(const VectorProblem& problem);
/// By a closed form.
VectorCost priced(const VectorProblem& problem, const VectorTiles& tiles, const Share& machine, ClosedForm& closed_form,
                  const Prepared& own);

/// Trips over tiles, per axis, of the core that has most of them; how many cores (or contexts of them) are at work.
/// Loops over tiles are what they divide; those along which tiles depend on each other stay whole.
struct CoreTrips {
  std::vector<std::int64_t> trips;
  std::vector<std::int64_t> parts;  ///< per axis; a core's number is a mixed radix of its parts, the first one slowest
  double workers = 1;
};
CoreTrips busiest_trips(const VectorProblem& problem, const VectorTiles& tiles, std::int64_t cores);

/// Whether an axis that is combined is cut, so that the tiles of a row stream by.
bool streams(const VectorProblem& problem, const VectorTiles& tiles);
/// Whether a result of the kernel has elements along the combined axes.
bool spans_rows(const VectorProblem& problem, const VectorOperand& operand);

}  // namespace tilesim::mapping
