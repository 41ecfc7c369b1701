// Searches tiles of a vector kernel: a closed form ranks all candidates, and the walk ranks those close to the fastest.
#include "tilesim/mapping/vector/search.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "tilesim/base/shape.hpp"
#include "tilesim/mapping/vector/moves.hpp"

namespace tilesim::mapping {

namespace {

constexpr std::int64_t most_sizes = 4000;  // limit on combinations of tile sizes
constexpr double most_steps = 1 << 20;     // limit on tiles, because longer walks take too long
constexpr double alike = 1.005;            // smaller gains do not justify a walk
constexpr std::size_t least_walked = 10;   // least number of candidates to walk

/// Candidate tile sizes of an axis: equal pieces, also rounded up to lanes and to memory granules.
std::vector<std::int64_t> sizes_of(const VectorProblem& problem, std::size_t axis, const Share& machine,
                                   std::int64_t factor) {
  const std::int64_t extent = std::max<std::int64_t>(1, problem.space[axis]);
  if (!problem.whole.empty() && problem.whole[axis]) return {extent};
  std::vector<std::int64_t> granules{machine.core.vector.lanes};
  for (const VectorOperand& operand : problem.operands) {
    if (operand.axes.empty() || operand.use == VectorOperand::Use::scratch) continue;
    for (std::size_t i = 0; i < std::min<std::size_t>(2, operand.axes.size()); ++i) {
      if (operand.axes[i] != static_cast<int>(axis)) continue;
      if (operand.layout.size() == 2) granules.push_back(operand.layout[1 - i]);
      if (operand.layout.empty() && i == 0)
        granules.push_back(
            std::max<std::int64_t>(1, 8 * machine.memory.burst_bytes / std::max(1, bits(operand.dtype))));
    }
  }
  std::vector<std::int64_t> sizes;
  std::int64_t pieces = 1;
  while (true) {
    const std::int64_t tile = ceil_div(extent, std::min(pieces, extent));
    sizes.push_back(tile);
    for (std::int64_t granule : granules) sizes.push_back(std::min(extent, round_up(tile, granule)));
    if (pieces >= extent) break;
    const bool three = factor == 2 && pieces >= 2 && (pieces & (pieces - 1)) == 0;  // 1, 2, 3, 4, 6, 8, 12, ...
    pieces = factor > 2 ? pieces * factor : three ? pieces / 2 * 3 : pieces == 1 ? 2 : pieces / 3 * 4;
  }
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

std::vector<std::vector<std::int64_t>> all_sizes(const VectorProblem& problem, const Share& machine) {
  std::vector<std::vector<std::int64_t>> sizes;
  for (std::int64_t factor = 2;; factor *= 2) {
    sizes.clear();
    double count = 1;
    for (std::size_t axis = 0; axis < problem.space.size(); ++axis) {
      sizes.push_back(sizes_of(problem, axis, machine, factor));
      count *= static_cast<double>(sizes.back().size());
    }
    if (count <= static_cast<double>(most_sizes) || factor > 4096) return sizes;
  }
}

double steps_of(const VectorProblem& problem, const VectorTiles& tiles) {
  double steps = 1;
  for (std::size_t axis = 0; axis < problem.space.size(); ++axis)
    steps *= static_cast<double>(ceil_div(std::max<std::int64_t>(1, problem.space[axis]), tiles.tiles[axis]));
  return steps;
}

bool sooner(const RankedTiles& a, const RankedTiles& b) { return a.cost.cycles < b.cost.cycles; }

class VectorSearch {
 public:
  VectorSearch(const VectorProblem& problem, const Share& machine, std::size_t keep, CancelToken* cancel,
               const VectorTiles* start)
      : problem_(problem),
        machine_(machine),
        keep_(keep),
        cancel_(cancel),
        own_(problem, machine),
        sizes_(all_sizes(problem, machine)),
        leaves_out_(start != nullptr) {
    fastest_.cycles = std::numeric_limits<double>::infinity();
    for (std::size_t axis = 0; start && axis < sizes_.size(); ++axis) {
      std::vector<std::int64_t>& sizes = sizes_[axis];
      const auto at = std::lower_bound(sizes.begin(), sizes.end(), start->tiles[axis]);
      if (at == sizes.end() || *at != start->tiles[axis]) sizes.insert(at, start->tiles[axis]);
    }
  }

  std::vector<RankedTiles> run() {
    enumerate();
    add_pieces();
    std::stable_sort(found_.begin(), found_.end(), sooner);
    if (!problem_.ranks && !problem_.walks) {
      found_.resize(std::min(found_.size(), std::max(keep_, least_walked)));
    } else {
      walk_best();
      for (int lane : problem_.lanes) climb(lane);
      found_ = std::move(walked_);
    }
    std::stable_sort(found_.begin(), found_.end(), sooner);
    if (found_.size() > keep_) found_.resize(keep_);
    return std::move(found_);
  }

 private:
  void add(const VectorTiles& tiles) {
    if (legal(problem_, tiles, machine_).legal)
      found_.push_back({tiles, weighed(problem_, tiles, machine_, own_).with_depth(tiles.depth)});
  }

  /// Adds the candidate with each ring depth from one to three that fits the scratchpad.
  void add_depths(VectorTiles tiles) {
    tiles.depth = 1;
    if (!legal(problem_, tiles, machine_).legal) return;
    const VectorWeighed any = weighed(problem_, tiles, machine_, own_);
    for (; tiles.depth <= 3; ++tiles.depth)
      if (tiles.depth == 1 || legal(problem_, tiles, machine_).legal)
        found_.push_back({tiles, any.with_depth(tiles.depth)});
  }

  /// Adds all sizes, lane axes and depths of tiles without pieces.
  void enumerate() {
    const std::size_t rank = problem_.space.size();
    std::vector<std::size_t> index(rank, 0);
    VectorTiles tiles;
    tiles.contexts = problem_.contexts;
    tiles.tiles.resize(rank);
    for (std::size_t axis = 0; axis < rank || rank == 0;) {
      if (cancel_) cancel_->poll();
      for (std::size_t i = 0; i < rank; ++i) tiles.tiles[i] = sizes_[i][index[i]];
      for (int lane : problem_.lanes)
        if (tiles.lane = lane; steps_of(problem_, tiles) <= most_steps) add_depths(tiles);
      for (axis = 0; axis < rank; ++axis) {
        if (++index[axis] < sizes_[axis].size()) break;
        index[axis] = 0;
      }
      if (rank == 0) return;
    }
  }

  /// Adds the best candidates with two or four pieces per tile. Loops over such tiles are not split over cores.
  void add_pieces() {
    if (machine_.core.count > std::max<std::int64_t>(1, problem_.contexts)) return;
    std::stable_sort(found_.begin(), found_.end(), sooner);
    const std::size_t whole = std::min<std::size_t>(found_.size(), std::max<std::size_t>(4, keep_ / 8));
    for (std::size_t i = 0; i < whole; ++i)
      for (std::size_t axis = 0; axis < problem_.space.size(); ++axis)
        for (std::int64_t pieces : {2, 4}) {
          VectorTiles tiles = found_[i].tiles;
          tiles.sub = tiles.tiles;
          tiles.sub[axis] = ceil_div(tiles.tiles[axis], pieces);
          if (tiles.sub[axis] < tiles.tiles[axis]) add(tiles);
        }
  }

  /// Whether, beyond the walk's error, the candidate cannot be faster than a walked one with as few transfers.
  bool promises_nothing(const RankedTiles& ranked) const {
    if (!leaves_out_) return false;
    const double least = std::max(ranked.cost.compute, ranked.cost.memory);
    return fastest_.cycles <= alike * least && fastest_.transfers <= ranked.cost.transfers;
  }

  void walk(RankedTiles ranked) {
    if (cancel_) cancel_->poll();
    if (promises_nothing(ranked)) return;
    if (!seen_.insert(key_of(ranked.tiles)).second) return;
    ranked.cost.cycles = walked_cycles(problem_, ranked.tiles, machine_);
    if (ranked.cost.cycles < fastest_.cycles) fastest_ = ranked.cost;
    walked_.push_back(std::move(ranked));
  }

  static std::vector<std::int64_t> key_of(const VectorTiles& tiles) {
    std::vector<std::int64_t> key = tiles.tiles;
    key.insert(key.end(), {tiles.lane, tiles.depth});
    key.insert(key.end(), tiles.sub.begin(), tiles.sub.end());
    return key;
  }

  /// Walks the best candidates by the closed form, and the best for each lane axis and order of magnitude of tiles,
  /// because the closed form's error depends on these.
  void walk_best() {
    constexpr double hopeless = 1.6;
    const std::size_t most = std::max(keep_, least_walked);
    std::set<std::pair<int, int>> kinds;
    for (std::size_t i = 0; i < found_.size(); ++i) {
      if (i >= most && found_[i].cost.cycles > hopeless * found_[0].cost.cycles) break;
      const int magnitude = std::ilogb(steps_of(problem_, found_[i].tiles));
      if (kinds.insert({found_[i].tiles.lane, magnitude}).second || i < most) walk(found_[i]);
    }
    found_.clear();
  }

  /// Moves from the fastest candidate with this lane axis to adjacent sizes and depths while one of them is faster.
  void climb(int lane) {
    constexpr int most_rounds = 4;
    constexpr double faster = 0.995, hopeless = 1.3;
    for (int round = 0; round < most_rounds && !walked_.empty(); ++round) {
      const auto order = [&](const RankedTiles& a, const RankedTiles& b) {
        const bool here = a.tiles.lane == lane, there = b.tiles.lane == lane;
        return here != there ? here : sooner(a, b);
      };
      const RankedTiles best = *std::min_element(walked_.begin(), walked_.end(), order);
      const double least = std::min_element(walked_.begin(), walked_.end(), sooner)->cost.cycles;
      if (best.tiles.lane != lane || !best.tiles.sub.empty() || best.cost.cycles > hopeless * least) break;
      const std::size_t before = walked_.size();
      for (std::size_t axis = 0; axis < problem_.space.size(); ++axis) {
        const std::vector<std::int64_t>& sizes = sizes_[axis];
        const auto at = std::find(sizes.begin(), sizes.end(), best.tiles.tiles[axis]) - sizes.begin();
        for (const std::ptrdiff_t next : {at - 1, at + 1}) {
          if (next < 0 || next >= std::ssize(sizes)) continue;
          VectorTiles tiles = best.tiles;
          tiles.tiles[axis] = sizes[static_cast<std::size_t>(next)];
          if (steps_of(problem_, tiles) <= most_steps) add(tiles);
        }
      }
      for (std::int64_t depth : {best.tiles.depth - 1, best.tiles.depth + 1}) {
        VectorTiles tiles = best.tiles;
        tiles.depth = depth;
        if (depth >= 1 && depth <= 3) add(tiles);
      }
      for (RankedTiles& next : found_) walk(std::move(next));
      found_.clear();
      const auto better = [&](const RankedTiles& other) { return other.cost.cycles < faster * best.cost.cycles; };
      if (std::none_of(walked_.begin() + static_cast<std::ptrdiff_t>(before), walked_.end(), better)) break;
    }
  }

  const VectorProblem& problem_;
  const Share& machine_;
  std::size_t keep_;
  CancelToken* cancel_;
  Prepared own_;
  std::vector<std::vector<std::int64_t>> sizes_;
  std::vector<RankedTiles> found_, walked_;
  std::set<std::vector<std::int64_t>> seen_;  ///< keys of walked candidates
  VectorCost fastest_;                        ///< cost of the fastest walked candidate
  bool leaves_out_ = false;                   ///< whether to skip candidates that cannot be faster
};

}  // namespace

std::vector<RankedTiles> search(const VectorProblem& problem, const Share& machine, std::size_t keep,
                                CancelToken* cancel) {
  return VectorSearch(problem, machine, keep, cancel, nullptr).run();
}

std::vector<RankedTiles> search_from(const VectorProblem& problem, const Share& machine, std::size_t keep,
                                     const VectorTiles& start, CancelToken* cancel) {
  return VectorSearch(problem, machine, keep, cancel, &start).run();
}

}  // namespace tilesim::mapping
