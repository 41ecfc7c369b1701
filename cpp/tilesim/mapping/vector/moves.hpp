// Bytes and work of a vector kernel's tiles: per tile for the walk, in total for the closed form.
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

/// Approximate address and bytes of the tile at a point, for an operand without `access`.
Moved moved(const VectorOperand& operand, const std::vector<std::int64_t>& strides,
            const std::vector<std::int64_t>& start, const std::vector<std::int64_t>& size, const Share& machine);

/// Latency of the permute of a tile of this size; zero if no element changes lanes.
TileLatency turning(const VectorProblem& problem, const VectorOperand& operand, const VectorTiles& tiles,
                    const std::vector<std::int64_t>& size, const Share& machine);

/// Latency of a stage on a tile of this size and these taps of a window (empty: all). `first`: the tile is the first of
/// its row. Zero if the stage computes nothing.
TileLatency stage_latency(const VectorProblem& problem, const VectorStage& stage, const VectorTiles& tiles,
                          const std::vector<std::int64_t>& size, const Shape& taps, bool first, LatencyModel& latency);

/// Values common to all tiles, and a cache of results. Not thread-safe; the problem must outlive the object.
class Prepared {
 public:
  Prepared(const VectorProblem& problem, const Share& machine);

  /// Transfers and bytes of all tiles of an operand.
  struct Total { double bytes = 0, transfers = 0; };
  Total total(std::size_t operand, const VectorTiles& tiles, bool in_pieces, bool streams);
  /// Cycles of the vector unit for all tiles of a stage, computed per tile size.
  double busy(const VectorStage& stage, const VectorTiles& tiles, bool streams);
  const std::vector<VectorPhase>& phases(bool follow) const { return phases_[follow ? 1 : 0]; }
  const std::vector<VectorStage>& stages() const { return stages_; }
  ClosedForm& closed_form() { return closed_form_; }

 private:
  struct Size { std::int64_t size = 1, count = 1; };
  using Sizes = std::vector<Size>;  ///< sizes of tiles along an axis
  struct Hash { std::size_t operator()(const std::vector<std::int64_t>& key) const; };
  Total about(std::size_t operand, const std::vector<std::int64_t>& tile) const;
  double busy(const VectorStage& stage, const VectorTiles& tiles, const std::vector<Sizes>& sizes, bool first,
              std::vector<std::int64_t>& size, std::size_t axis, double count);

  const VectorProblem& problem_;
  const Share& machine_;
  ClosedForm closed_form_;
  std::vector<VectorStage> stages_;
  std::vector<VectorPhase> phases_[2];
  std::vector<std::optional<TensorMap>> maps_;      ///< per operand that has an access
  std::vector<std::vector<std::int64_t>> strides_;  ///< per operand without access
  std::unordered_map<std::vector<std::int64_t>, Total, Hash> totals_;
};

/// The closed form of tiles, before a ring depth is chosen.
struct VectorWeighed {
  VectorCost cost;  ///< without cycles and limit
  std::array<std::pair<double, const char*>, 6> parts;
  double ring = 0;  ///< cycles until one buffer can be refilled
  double exposed = 0;

  /// The cost with `depth` buffers per ring.
  VectorCost with_depth(std::int64_t depth) const;
};
VectorWeighed weighed(const VectorProblem& problem, const VectorTiles& tiles, const Share& machine, Prepared& own);

/// The number of trips over tiles per axis, of the core with the most trips, and the number of busy cores (or
/// contexts). Cores split the loops over tiles, except along axes on which tiles depend on each other.
struct CoreTrips {
  std::vector<std::int64_t> trips;
  std::vector<std::int64_t> parts;  ///< per axis; a core's number in mixed radix has these digits, first slowest
  double workers = 1;
};
CoreTrips busiest_trips(const VectorProblem& problem, const VectorTiles& tiles, std::int64_t cores);

}  // namespace tilesim::mapping
