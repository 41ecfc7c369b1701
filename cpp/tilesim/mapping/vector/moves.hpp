// Bytes and work of the tiles of a vector kernel: one by one for the walk, and in total for the closed form.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "tilesim/mapping/vector/plan.hpp"
#include "tilesim/mapping/vector/region.hpp"
#include "tilesim/tile/tile.hpp"

namespace tilesim::mapping {

/// Approximate address and bytes that memory moves for the tile at a point, for an operand without access.
Moved moved(const VectorOperand& operand, const std::vector<std::int64_t>& strides,
            const std::vector<std::int64_t>& start, const std::vector<std::int64_t>& size, const Share& machine);

/// Latency of the permute of a tile of this size; zero if no elements change lanes.
TileLatency turning(const VectorProblem& problem, const VectorOperand& operand, const VectorTiles& tiles,
                    const std::vector<std::int64_t>& size, const Share& machine);

/// Latency of one stage on a tile of this size with these taps of a window (empty: all); `first`: first tile of its
/// row. Zero if nothing is computed.
TileLatency stage_latency(const VectorProblem& problem, const VectorStage& stage, const VectorTiles& tiles,
                          const std::vector<std::int64_t>& size, const Shape& taps, bool first, LatencyModel& latency);

/// Values shared by all tiles, and a cache of results. Use it in one thread; the problem must outlive it.
class Prepared {
 public:
  Prepared(const VectorProblem& problem, const Share& machine);

  /// Total transfers and bytes of an operand's tiles.
  struct Total { double bytes = 0, transfers = 0; };
  Total total(std::size_t operand, const VectorTiles& tiles, bool in_pieces, bool streams);
  /// Cycles of the vector unit for all tiles of a stage, by tile size.
  double busy(const VectorStage& stage, const VectorTiles& tiles, bool streams);
  const std::vector<VectorPhase>& phases(bool follow) const { return phases_[follow ? 1 : 0]; }
  const std::vector<VectorStage>& stages() const { return stages_; }
  ClosedForm& closed_form() { return closed_form_; }

 private:
  struct Size { std::int64_t size = 1, count = 1; };
  using Sizes = std::vector<Size>;  ///< sizes of tiles along one axis
  struct Hash { std::size_t operator()(const std::vector<std::int64_t>& key) const; };
  Total about(std::size_t operand, const std::vector<std::int64_t>& tile) const;
  double busy(const VectorStage& stage, const VectorTiles& tiles, const std::vector<Sizes>& sizes, bool first,
              std::vector<std::int64_t>& size, std::size_t axis, double count);

  const VectorProblem& problem_;
  const Share& machine_;
  ClosedForm closed_form_;
  std::vector<VectorStage> stages_;
  std::vector<VectorPhase> phases_[2];
  std::vector<std::optional<TensorMap>> maps_;      ///< per operand with a known access
  std::vector<std::vector<std::int64_t>> strides_;  ///< strides of operands with an unknown access
  std::unordered_map<std::vector<std::int64_t>, Total, Hash> totals_;
};

/// The closed form of tiles before a ring depth is chosen.
struct VectorWeighed {
  VectorCost cost;  ///< without cycles and limit
  std::array<std::pair<double, const char*>, 6> parts;
  double ring = 0;  ///< cycles until one buffer can be refilled
  double exposed = 0;

  /// The cost with a ring of `depth` buffers.
  VectorCost with_depth(std::int64_t depth) const;
};
VectorWeighed weighed(const VectorProblem& problem, const VectorTiles& tiles, const Share& machine, Prepared& own);

/// Trips over tiles, per axis, of the core with the most trips, and the number of busy cores (or contexts). Cores split
/// the loops over tiles, except along axes with dependences between tiles.
struct CoreTrips {
  std::vector<std::int64_t> trips;
  std::vector<std::int64_t> parts;  ///< per axis; a core's number is a mixed radix of its parts, the first part slowest
  double workers = 1;
};
CoreTrips busiest_trips(const VectorProblem& problem, const VectorTiles& tiles, std::int64_t cores);

}  // namespace tilesim::mapping
