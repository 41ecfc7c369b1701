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

/// What memory moves, about, for the tile that starts at a point, of an operand without access.
Moved moved(const VectorOperand& operand, const std::vector<std::int64_t>& strides,
            const std::vector<std::int64_t>& start, const std::vector<std::int64_t>& size, const Share& machine);

/// Of a tile of this size whose elements change lanes: what the permute takes; nothing where none do.
TileLatency turning(const VectorProblem& problem, const VectorOperand& operand, const VectorTiles& tiles,
                    const std::vector<std::int64_t>& size, const Share& machine);

/// Of one stage on a tile of this size, with as many taps of a window at hand (empty: all); `first` of its row. Nothing
/// where nothing is computed.
TileLatency stage_latency(const VectorProblem& problem, const VectorStage& stage, const VectorTiles& tiles,
                          const std::vector<std::int64_t>& size, const Shape& taps, bool first, LatencyModel& latency);

/// What is the same for all tiles, and what has been found for some. Not shared between threads; the problem outlives
/// it.
class Prepared {
 public:
  Prepared(const VectorProblem& problem, const Share& machine);

  /// Tiles under a plan, each time that they come: how often, and their bytes.
  struct Total { double bytes = 0, transfers = 0; };
  Total total(std::size_t operand, const VectorTiles& tiles, bool in_pieces, bool streams);
  /// Cycles of the vector unit for all tiles of a stage, each at its own size.
  double busy(const VectorStage& stage, const VectorTiles& tiles, bool streams);
  const std::vector<VectorPhase>& phases(bool follow) const { return phases_[follow ? 1 : 0]; }
  const std::vector<VectorStage>& stages() const { return stages_; }
  ClosedForm& closed_form() { return closed_form_; }

 private:
  struct Size { std::int64_t size = 1, count = 1; };
  using Sizes = std::vector<Size>;  ///< along one axis
  struct Hash { std::size_t operator()(const std::vector<std::int64_t>& key) const; };
  Total about(std::size_t operand, const std::vector<std::int64_t>& tile) const;
  double busy(const VectorStage& stage, const VectorTiles& tiles, const std::vector<Sizes>& sizes, bool first,
              std::vector<std::int64_t>& size, std::size_t axis, double count);

  const VectorProblem& problem_;
  const Share& machine_;
  ClosedForm closed_form_;
  std::vector<VectorStage> stages_;
  std::vector<VectorPhase> phases_[2];
  std::vector<std::optional<TensorMap>> maps_;      ///< per operand, where its access is known
  std::vector<std::vector<std::int64_t>> strides_;  ///< of the others
  std::unordered_map<std::vector<std::int64_t>, Total, Hash> totals_;
};

/// A closed form of tiles, before their rings have a depth.
struct VectorWeighed {
  VectorCost cost;  ///< without cycles and limit
  std::array<std::pair<double, const char*>, 6> parts;
  double ring = 0;  ///< cycles of one buffer
  double exposed = 0;

  /// A ring of d has d buffers in turn.
  VectorCost with_depth(std::int64_t depth) const;
};
VectorWeighed weighed(const VectorProblem& problem, const VectorTiles& tiles, const Share& machine, Prepared& own);

/// Trips over tiles, per axis, of the core that has most of them; how many cores (or contexts of them) are at work.
/// Loops over tiles are what they divide; those along which tiles depend on each other stay whole.
struct CoreTrips {
  std::vector<std::int64_t> trips;
  std::vector<std::int64_t> parts;  ///< per axis; a core's number is a mixed radix of its parts, the first one slowest
  double workers = 1;
};
CoreTrips busiest_trips(const VectorProblem& problem, const VectorTiles& tiles, std::int64_t cores);

}  // namespace tilesim::mapping
