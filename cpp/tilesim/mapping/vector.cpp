#include "tilesim/mapping/vector.hpp"

#include <algorithm>
#include <limits>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/tile/tile.hpp"

namespace tilesim::mapping {

namespace {

constexpr std::int64_t most_sizes = 4000;  // combinations of tile sizes that are priced
constexpr double most_steps = 1 << 20;     // tiles in all: longer programs are not worth simulating
constexpr std::int64_t most_bytes = INT64_MAX / 8;

std::int64_t saturating(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) || product > most_bytes ? most_bytes : product;
}

/// Elements of the operand along an axis of the space for so many points.
std::int64_t along(const VectorOperand& operand, std::size_t axis, std::int64_t points) {
  if (operand.step[axis] == 0) return 1;
  const std::int64_t reach = operand.reach.empty() ? 1 : operand.reach[axis];
  return operand.step[axis] * (points - 1) + reach;
}

std::int64_t held_elements(const VectorProblem& problem, const VectorOperand& operand, const VectorTiles& tiles) {
  std::int64_t count = 1;
  for (std::size_t axis = 0; axis < problem.space.size(); ++axis)
    count = saturating(count, along(operand, axis, std::min(tiles.tiles[axis], problem.space[axis])));
  return count;
}

/// Bytes that memory moves for a full tile: whole layout tiles, or each contiguous run in whole bursts.
std::int64_t moved_bytes(const VectorProblem& problem, const VectorOperand& operand, const VectorTiles& tiles,
                         const Machine& machine) {
  const std::size_t rank = operand.axes.size();
  Shape extents;
  for (std::size_t i = 0; i < rank; ++i) {
    const int axis = operand.axes[i];
    const auto a = static_cast<std::size_t>(std::max(axis, 0));
    const std::int64_t wanted = axis < 0 ? 1 : along(operand, a, std::min(tiles.tiles[a], problem.space[a]));
    extents.push_back(std::max<std::int64_t>(1, std::min(wanted, operand.extents[i])));
  }
  if (operand.layout.size() == 2 && rank >= 2) {
    std::int64_t elements = 1;
    for (std::size_t i = 0; i < rank; ++i) {
      const std::int64_t granule = i < 2 ? operand.layout[1 - i] : 1;
      const bool straddles = extents[i] < operand.extents[i] && extents[i] % granule != 0;
      elements = saturating(elements, round_up(extents[i], granule) + (straddles ? granule : 0));
    }
    return packed_bytes(operand.dtype, elements);
  }
  std::int64_t run = 1, runs = 1;
  std::size_t i = 0;
  for (; i < rank; ++i) {
    run = saturating(run, extents[i]);
    if (extents[i] < operand.extents[i]) break;
  }
  for (++i; i < rank; ++i) runs = saturating(runs, extents[i]);
  const std::int64_t burst = machine.memory.burst_bytes;
  const std::int64_t bytes = run >= most_bytes / 8 ? most_bytes : packed_bytes(operand.dtype, run);
  const bool straddles = bytes % burst != 0 && (runs > 1 || run < element_count(operand.extents));
  return saturating(runs, round_up(std::max<std::int64_t>(1, bytes), burst) + (straddles ? burst : 0));
}

/// Bytes of distinct elements that the kernel reads or writes at least.
double compulsory_bytes(const VectorProblem& problem, const VectorOperand& operand) {
  if (operand.use == VectorOperand::Use::scratch || !operand.certain) return 0;
  double elements = 1;
  for (std::size_t i = 0; i < operand.axes.size(); ++i) {
    if (operand.axes[i] < 0) continue;
    const auto axis = static_cast<std::size_t>(operand.axes[i]);
    const std::int64_t reach = operand.reach.empty() ? 1 : operand.reach[axis];
    const std::int64_t outside = reach > 1 ? reach - 1 : 0;  // windows may lie in the padding on both sides
    const std::int64_t touched = std::min(operand.extents[i], problem.space[axis]) - 2 * outside;
    elements *= static_cast<double>(std::max<std::int64_t>(1, touched));
  }
  return elements * static_cast<double>(bits(operand.dtype)) / 8;
}

/// Elements that pass the cross-lane unit for a tile; those spread to all lanes fill a row of lanes each.
double shuffled_bytes(const VectorProblem& problem, const VectorOperand& operand, const VectorTiles& tiles,
                      const Machine& machine) {
  if (!changes_lanes(problem, operand, tiles)) return 0;
  const auto lane = static_cast<std::size_t>(tiles.lane);
  const bool spread = operand.use == VectorOperand::Use::load && operand.step[lane] == 0;
  const std::int64_t copies = spread ? std::min(machine.core.vector.lanes, tiles.tiles[lane]) : 1;
  return static_cast<double>(held_elements(problem, operand, tiles)) * static_cast<double>(copies) *
         static_cast<double>(bits(operand.dtype)) / 8;
}

bool streams(const VectorProblem& problem, const VectorTiles& tiles) {
  for (std::size_t axis = 0; axis < problem.space.size(); ++axis)
    if (problem.reduced[axis] && tiles.tiles[axis] < problem.space[axis]) return true;
  return false;
}

/// Cycles of the vector unit for all tiles, ragged ones at their own extent: full and last piece of every axis.
double compute_cycles(const VectorProblem& problem, VectorTiles& tiles, ClosedForm& latency, std::size_t axis,
                      double count) {
  for (; axis < problem.space.size(); ++axis) {
    const std::int64_t extent = problem.space[axis], tile = tiles.tiles[axis];
    if (tile >= extent || extent % tile == 0) {
      if (tile < extent) count *= static_cast<double>(extent / tile);
      continue;
    }
    const double full = compute_cycles(problem, tiles, latency, axis + 1, count * static_cast<double>(extent / tile));
    tiles.tiles[axis] = extent % tile;
    const double last = compute_cycles(problem, tiles, latency, axis + 1, count);
    tiles.tiles[axis] = tile;
    return full + last;
  }
  Descriptor d;
  d.kind = ComputeKind::vector;
  d.dtype = problem.dtype;
  d.elements = problem.points;
  for (std::size_t a = 0; a < problem.space.size(); ++a)
    d.elements = saturating(d.elements, std::min(tiles.tiles[a], problem.space[a]));
  const auto lane = static_cast<std::size_t>(tiles.lane);
  d.lane_extent = problem.space.empty() ? 1 : std::min(tiles.tiles[lane], problem.space[lane]);
  d.functions = problem.functions;
  if (!problem.space.empty() && problem.reduced[lane]) d.lane_reductions = problem.reductions;
  if (problem.scanned == tiles.lane) d.lane_scans = 1;
  return static_cast<double>(latency.latency(d, {}).busy) * count;
}

/// Tile sizes of an axis worth trying: equal pieces, and those rounded up to what the lanes or memory take at once.
std::vector<std::int64_t> sizes_of(const VectorProblem& problem, std::size_t axis, const Machine& machine,
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

/// What is wrong with the pieces of tiles that are right otherwise; empty: nothing.
std::string wrong_pieces(const VectorProblem& problem, const VectorTiles& tiles) {
  const std::size_t rank = problem.space.size();
  if (tiles.sub.empty()) return {};
  if (tiles.sub.size() != rank) return "sub-tiles need " + std::to_string(rank) + " sizes, one per axis";
  std::int64_t pieces = 1;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    if (tiles.sub[axis] < 1 || tiles.sub[axis] > tiles.tiles[axis])
      return "sub-tile size of axis " + std::to_string(axis) + " is " + std::to_string(tiles.sub[axis]) + "; 1 to " +
             std::to_string(tiles.tiles[axis]) + " are possible";
    pieces = saturating(pieces, ceil_div(tiles.tiles[axis], tiles.sub[axis]));
  }
  if (pieces == 1) return {};
  if (!problem.whole_tiles.empty()) return problem.whole_tiles;
  if (streams(problem, tiles)) return "the tiles of rows that stream by are not cut further";
  if (pieces > most_pieces)
    return "a tile has " + std::to_string(pieces) + " pieces; at most " + std::to_string(most_pieces) + " are possible";
  const bool reduces = std::find(problem.reduced.begin(), problem.reduced.end(), true) != problem.reduced.end();
  for (const VectorOperand& operand : problem.operands) {
    if (changes_lanes(problem, operand, tiles)) return "a tile whose elements change lanes comes whole";
    if (operand.use != VectorOperand::Use::scratch && bits(operand.dtype) < 8)
      return "sub-tiles of elements smaller than a byte would share bytes";
    bool rows = !reduces;
    for (std::size_t axis = 0; axis < rank; ++axis)
      rows |= problem.reduced[axis] && operand.step[axis] > 0 && problem.space[axis] > 1;
    for (std::size_t axis = 0; axis < rank && operand.use == VectorOperand::Use::store && rows; ++axis)
      if (tiles.sub[axis] < tiles.tiles[axis] && operand.step[axis] == 0)
        return "a result does not span axis " + std::to_string(axis) + ", so its tile cannot come in pieces along it";
  }
  return {};
}

std::vector<std::vector<std::int64_t>> all_sizes(const VectorProblem& problem, const Machine& machine) {
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

}  // namespace

bool changes_lanes(const VectorProblem& problem, const VectorOperand& operand, const VectorTiles& tiles) {
  const auto lane = static_cast<std::size_t>(tiles.lane);
  if (operand.use == VectorOperand::Use::scratch || problem.space.empty() || problem.space[lane] <= 1) return false;
  if (held_elements(problem, operand, tiles) <= 1) return false;
  const bool padded = operand.layout.size() == 2 && operand.axes.size() >= 2;
  std::size_t minor = 0;
  while (!padded && minor + 1 < operand.axes.size() && operand.extents[minor] <= 1) ++minor;
  const int axis = operand.axes.empty() || operand.extents[minor] <= 1 ? -1 : operand.axes[minor];
  // The same in all lanes: spread from where memory has it, or a result of all lanes that memory has one of.
  if (operand.step[lane] == 0) return operand.use == VectorOperand::Use::load || axis >= 0;
  if (axis != tiles.lane || operand.minor_step < 0) return true;
  if (operand.row == 1) return false;
  return operand.minor_mixed || operand.minor_step != 1 || operand.minor_offset % operand.row != 0;
}

std::int64_t vector_scratchpad_bytes(const VectorProblem& problem, const VectorTiles& tiles) {
  std::int64_t bytes = 0;
  for (const VectorOperand& operand : problem.operands) {
    if (!operand.held) continue;
    const std::int64_t elements = held_elements(problem, operand, tiles);
    const bool scratch = operand.use == VectorOperand::Use::scratch;
    const std::int64_t one = elements >= most_bytes / 8 ? most_bytes : packed_bytes(operand.dtype, elements);
    bytes = std::min(most_bytes, bytes + saturating(round_up(one, 64), scratch ? operand.depth : tiles.depth));
  }
  std::int64_t beside = problem.bytes_per_point;
  for (std::size_t axis = 0; axis < problem.space.size(); ++axis)
    beside = saturating(beside, std::min(tiles.tiles[axis], problem.space[axis]));
  return std::min(most_bytes, bytes + saturating(round_up(std::min(beside, most_bytes / 8), 64), tiles.depth));
}

Legality legal(const VectorProblem& problem, const VectorTiles& tiles, const Machine& machine) {
  const std::size_t rank = problem.space.size();
  if (tiles.tiles.size() != rank)
    return {false, "tiles of " + problem.operation + " need " + std::to_string(rank) + " sizes, one per axis"};
  for (std::size_t axis = 0; axis < rank; ++axis)
    if (tiles.tiles[axis] < 1 || tiles.tiles[axis] > std::max<std::int64_t>(1, problem.space[axis]))
      return {false, "tile size of axis " + std::to_string(axis) + " is " + std::to_string(tiles.tiles[axis]) +
                         "; 1 to " + std::to_string(problem.space[axis]) + " are possible"};
  for (std::size_t axis = 0; axis < problem.whole.size(); ++axis)
    if (problem.whole[axis] && tiles.tiles[axis] < problem.space[axis])
      return {false, "axis " + std::to_string(axis) + " stays whole: a tile has " +
                         std::to_string(problem.space[axis]) + " elements along it"};
  if (tiles.depth < 1 || tiles.depth > 1 << 10) return {false, "a ring needs a depth of 1 to 1024"};
  if (const std::string wrong = wrong_pieces(problem, tiles); !wrong.empty()) return {false, wrong};
  if (const std::string wrong = wrong_contexts(tiles.contexts, machine); !wrong.empty()) return {false, wrong};
  if (rank > 0 && std::find(problem.lanes.begin(), problem.lanes.end(), tiles.lane) == problem.lanes.end()) {
    std::string allowed;
    for (int lane : problem.lanes) allowed += (allowed.empty() ? "" : ", ") + std::to_string(lane);
    return {false, "axis " + std::to_string(tiles.lane) + " cannot lie over the lanes; these can: " + allowed};
  }
  const std::int64_t bytes = vector_scratchpad_bytes(problem, tiles), most = machine.core.scratchpad.bytes;
  if (bytes > most)
    return {false,
            "tiles need " + std::to_string(bytes) + " bytes of scratchpad, the core has " + std::to_string(most)};
  return {};
}

namespace {

VectorCost priced(const VectorProblem& problem, const VectorTiles& tiles, const Machine& machine,
                  ClosedForm& closed_form) {
  VectorCost cost;
  VectorTiles walked = tiles;  // pieces move and are computed on as tiles of their size
  if (!tiles.sub.empty()) walked.tiles = tiles.sub;
  const std::int64_t passes = streams(problem, tiles) ? std::max<std::int64_t>(1, problem.passes) : 1;
  double steps = 1, rows = 1, turns = static_cast<double>(passes);
  for (std::size_t axis = 0; axis < problem.space.size(); ++axis) {
    const std::int64_t extent = std::max<std::int64_t>(1, problem.space[axis]);
    turns *= static_cast<double>(ceil_div(extent, tiles.tiles[axis]));
    const auto trips = static_cast<double>(ceil_div(extent, walked.tiles[axis]));
    steps *= trips;
    if (!problem.reduced[axis]) rows *= trips;
  }
  double exposed = 0, transfers = 0, read = 0, written = 0, least = 0;
  double shuffled = 0, turned = 0, changes = 0;  // cross-lane unit: bytes of all tiles and of one; operands
  for (const VectorOperand& operand : problem.operands) {
    if (operand.use == VectorOperand::Use::scratch) continue;
    const auto bytes = static_cast<double>(moved_bytes(problem, operand, walked, machine));
    bool spans_rows = false;
    for (std::size_t axis = 0; axis < problem.space.size(); ++axis)
      spans_rows |= problem.reduced[axis] && operand.step[axis] > 0 && problem.space[axis] > 1;
    const bool load = operand.use == VectorOperand::Use::load;
    const double times = load ? steps * static_cast<double>(passes) : spans_rows ? steps : rows;
    (load ? read : written) += bytes * times;
    const double changed = shuffled_bytes(problem, operand, walked, machine);
    shuffled += changed * times;
    turned += changed;
    changes += changed > 0 ? 1 : 0;
    least += compulsory_bytes(problem, operand);
    transfers += times;
    exposed += bytes;
  }
  const double computing = compute_cycles(problem, walked, closed_form, 0, 1) * static_cast<double>(passes);
  const auto lanes_rate = static_cast<double>(machine.core.cross_lane.bytes_per_cycle);
  const double lanes_latency = changes * static_cast<double>(machine.core.cross_lane.latency);
  cost.compute = std::max(computing, shuffled / lanes_rate);
  const double rate = static_cast<double>(machine.memory.bytes_per_second) * machine.memory.efficiency /
                      static_cast<double>(machine.core.clock.hertz);
  const double hertz = static_cast<double>(machine.core.clock.hertz);
  const double latency = static_cast<double>(machine.memory.latency_ps) * 1e-12 * hertz +
                         2.0 * static_cast<double>(machine.network.latency_cycles) * hertz /
                             static_cast<double>(machine.network.clock.hertz) +
                         static_cast<double>(machine.core.dma.latency_cycles + machine.core.dma.issue_cycles);
  cost.memory = (read + written) / rate;
  cost.read_bytes = static_cast<std::int64_t>(std::min(read, 9e18));
  cost.written_bytes = static_cast<std::int64_t>(std::min(written, 9e18));
  cost.transfers = static_cast<std::int64_t>(std::min(transfers, 9e18));
  // A buffer is loaded, turned to its lanes, computed on and loaded again, behind stores on the same memory; a ring of
  // d has d in turn.
  const double each = turns * (latency + lanes_latency + static_cast<double>(machine.core.vector.latency));
  const double used = tiles.sub.empty() ? cost.compute + cost.memory : std::max(cost.compute, cost.memory);
  const double ring = (each + used) / static_cast<double>(tiles.depth);
  const double issue = static_cast<double>(machine.core.dma.issue_cycles) * transfers;
  const std::pair<double, const char*> parts[] = {
      {cost.compute, "compute"}, {cost.memory, "memory"}, {ring, "the ring of buffers"}, {issue, "issue of transfers"}};
  const auto longest = std::max_element(std::begin(parts), std::end(parts));
  cost.limit = longest->second;
  cost.bound = least * hertz / static_cast<double>(machine.memory.bytes_per_second);
  // Of the first tile's loads and the last one's stores nothing hides what they take.
  cost.cycles = longest->first + exposed / rate + turned / lanes_rate + lanes_latency + latency + transfers;
  return cost;
}

}  // namespace

VectorCost price(const VectorProblem& problem, const VectorTiles& tiles, const Machine& machine) {
  ClosedForm closed_form(machine);
  return priced(problem, tiles, machine, closed_form);
}

std::vector<RankedTiles> search(const VectorProblem& problem, const Machine& machine, std::size_t keep,
                                CancelToken* cancel) {
  const std::size_t rank = problem.space.size();
  ClosedForm closed_form(machine);
  const std::vector<std::vector<std::int64_t>> sizes = all_sizes(problem, machine);
  std::vector<RankedTiles> found;
  std::vector<std::size_t> index(rank, 0);
  while (true) {
    if (cancel) cancel->poll();
    VectorTiles tiles;
    tiles.contexts = problem.contexts;
    double steps = 1;
    for (std::size_t axis = 0; axis < rank; ++axis) {
      tiles.tiles.push_back(sizes[axis][index[axis]]);
      steps *= static_cast<double>(ceil_div(std::max<std::int64_t>(1, problem.space[axis]), tiles.tiles.back()));
    }
    if (steps <= most_steps)
      for (int lane : problem.lanes)
        for (std::int64_t depth = 1; depth <= 3; ++depth) {
          tiles.lane = lane;
          tiles.depth = depth;
          if (legal(problem, tiles, machine).legal)
            found.push_back({tiles, priced(problem, tiles, machine, closed_form)});
        }
    std::size_t axis = 0;
    for (; axis < rank; ++axis) {
      if (++index[axis] < sizes[axis].size()) break;
      index[axis] = 0;
    }
    if (axis == rank) break;
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const RankedTiles& a, const RankedTiles& b) { return a.cost.cycles < b.cost.cycles; });
  const std::size_t whole = std::min<std::size_t>(found.size(), std::max<std::size_t>(4, keep / 8));
  for (std::size_t i = 0; i < whole; ++i)
    for (std::size_t axis = 0; axis < rank; ++axis)
      for (std::int64_t pieces : {2, 4}) {
        VectorTiles tiles = found[i].tiles;
        tiles.sub = tiles.tiles;
        tiles.sub[axis] = ceil_div(tiles.tiles[axis], pieces);
        if (tiles.sub[axis] < tiles.tiles[axis] && legal(problem, tiles, machine).legal)
          found.push_back({tiles, priced(problem, tiles, machine, closed_form)});
      }
  std::stable_sort(found.begin(), found.end(),
                   [](const RankedTiles& a, const RankedTiles& b) { return a.cost.cycles < b.cost.cycles; });
  if (found.size() > keep) found.resize(keep);
  return found;
}

}  // namespace tilesim::mapping
