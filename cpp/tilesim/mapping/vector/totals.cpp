// Totals over all tiles of a vector kernel: traffic, and cycles of the vector unit.
#include <algorithm>

#include "tilesim/base/shape.hpp"
#include "tilesim/mapping/vector/lines.hpp"
#include "tilesim/mapping/vector/moves.hpp"

namespace tilesim::mapping {

namespace {

/// Latency of `times` computes in sequence.
TileLatency repeated(TileLatency one, std::int64_t times) {
  const std::int64_t before = (std::max<std::int64_t>(1, times) - 1) * one.busy;
  one.busy += before, one.done += before;
  return one;
}

/// Latency of reordering lines, or of converting positions within lines.
TileLatency lines_latency(const VectorProblem& problem, const VectorStage& stage, const VectorTiles& tiles,
                          const std::vector<std::int64_t>& size, LatencyModel& latency) {
  const auto axis = static_cast<std::size_t>(stage.line);
  const Lines lines =
      stage.apart ? Lines{false, problem.space.size() - 1} : lines_of(problem.space, tiles.tiles, axis, latency);
  std::int64_t outer = 1, before = 1, after = 1;
  for (std::size_t i = 0; i < problem.space.size(); ++i) {
    if (i == axis) continue;
    std::int64_t& count = i > axis ? after : i >= lines.first ? before : outer;
    count = saturating(count, std::min(size[i], problem.space[i]));
  }
  const std::int64_t extent = std::min(size[axis], problem.space[axis]), rows = saturating(before, after);
  if (stage.joins)
    return lines.together ? repeated(latency.latency(places_descriptor(before, extent, after), {}), outer)
                          : TileLatency{};
  const DType dtype = stage.dtype.value_or(problem.dtype);
  if (lines.together) return repeated(latency.latency(gathered(dtype, saturating(rows, extent)), {}), outer);
  return repeated(latency.latency(gathered(dtype, extent), {}), saturating(outer, rows));
}

}  // namespace

TileLatency stage_latency(const VectorProblem& problem, const VectorStage& stage, const VectorTiles& tiles,
                          const std::vector<std::int64_t>& size, const Shape& taps, bool first, LatencyModel& latency) {
  if (stage.line >= 0) return lines_latency(problem, stage, tiles, size, latency);
  const int lane = tiles.lane;
  Descriptor d;
  d.kind = stage.kind;
  d.dtype = stage.dtype.value_or(problem.dtype);
  const auto extent = [&](std::size_t axis) {
    return stage.points && problem.reduced[axis] ? 1 : std::min(size[axis], problem.space[axis]);
  };
  d.elements = problem.points;
  for (std::size_t axis = 0; axis < problem.space.size(); ++axis) d.elements = saturating(d.elements, extent(axis));
  if (stage.taps)
    for (const std::int64_t count : taps.empty() ? problem.taps : taps) d.elements = saturating(d.elements, count);
  const auto over = static_cast<std::size_t>(lane);
  d.lane_extent = problem.space.empty() ? 1 : extent(over);
  d.functions = first && stage.first ? *stage.first : stage.functions;
  const bool combined = !problem.space.empty() && (problem.reduced[over] || problem.scanned == lane);
  if (combined) d.lane_reductions = stage.reductions;
  if (problem.scanned == lane) d.lane_scans = stage.scans;
  const VectorPattern& pattern = first && stage.first ? stage.first_pattern : stage.pattern;
  if (stage.kind == ComputeKind::vector && pattern.known()) {
    std::array<std::int64_t, most_vector_dims> extents;
    std::size_t dims = 0;
    for (std::size_t axis = 0; axis < problem.space.size(); ++axis) extents[dims++] = extent(axis);
    if (stage.taps)
      for (const std::int64_t count : taps.empty() ? problem.taps : taps) extents[dims++] = count;
    add_moves(d, pattern, std::span(extents.data(), dims), problem.space.empty() ? -1 : lane);
  }
  if (stage.sorted >= 0) {
    d.lane_extent = extent(static_cast<std::size_t>(stage.sorted));
    d.k = stage.kept;
  }
  return latency.latency(d, {});
}

Prepared::Prepared(const VectorProblem& problem, const Share& machine)
    : problem_(problem),
      machine_(machine),
      closed_form_(machine),
      stages_(stages_of(problem)),
      phases_{phases_of(problem, false), phases_of(problem, true)} {
  for (const VectorOperand& operand : problem.operands) {
    maps_.emplace_back();
    strides_.push_back(strides_of(operand));
    if (!operand.access.empty()) maps_.back().emplace(problem, operand, machine);
  }
}

std::size_t Prepared::Hash::operator()(const std::vector<std::int64_t>& key) const {
  std::size_t hash = 14695981039346656037ULL;
  for (std::int64_t part : key) hash = (hash ^ static_cast<std::size_t>(part)) * 1099511628211ULL;
  return hash ^ hash >> 29;
}

/// Approximate total for an operand without access: the mean of the first two tiles, whose alignment differs.
Prepared::Total Prepared::about(std::size_t number, const std::vector<std::int64_t>& size) const {
  const VectorOperand& operand = problem_.operands[number];
  std::vector<std::int64_t> start(problem_.space.size(), 0);
  double filled = 1, times = 1;  // ratio to full tiles; the last ones may be partial
  const std::int64_t first = moved(operand, strides_[number], start, size, machine_).bytes;
  for (std::size_t axis = 0; axis < start.size(); ++axis) {
    const std::int64_t extent = std::max<std::int64_t>(1, problem_.space[axis]), trips = ceil_div(extent, size[axis]);
    start[axis] = trips > 1 ? size[axis] : 0;
    times *= static_cast<double>(trips);
    if (operand.step[axis] > 0) filled *= static_cast<double>(extent) / static_cast<double>(trips * size[axis]);
  }
  if (operand.layout.size() == 2) return {static_cast<double>(first) * times, times};
  const std::int64_t second = moved(operand, strides_[number], start, size, machine_).bytes;
  return {filled * (static_cast<double>(first) + static_cast<double>(second)) / 2 * times, times};
}

/// `streams`: counts a transfer per tile of a row and per part of a window; else one transfer for all of them.
Prepared::Total Prepared::total(std::size_t number, const VectorTiles& tiles, bool in_pieces, bool streams) {
  if (!maps_[number]) return about(number, tiles.tiles);
  const VectorOperand& operand = problem_.operands[number];
  const std::size_t rank = problem_.space.size();
  const bool rows_only = !streams && mapping::streams(problem_, tiles);
  const auto piece = [&](std::size_t axis) {
    return in_pieces && !tiles.sub.empty() ? std::min(tiles.sub[axis], tiles.tiles[axis]) : tiles.tiles[axis];
  };
  double times = 1;  // repetitions along axes on which the operand does not depend
  std::vector<std::int64_t> key{static_cast<std::int64_t>(number)};
  for (std::size_t axis = 0; axis < rank; ++axis) {
    if (operand.step[axis] > 0) {
      key.insert(key.end(), {tiles.tiles[axis], piece(axis)});
    } else if (!rows_only || !problem_.reduced[axis]) {
      double count = 0;
      for (const Stretch& stretch : stretches(problem_.space[axis], tiles.tiles[axis], piece(axis)))
        count += static_cast<double>(stretch.count);
      times *= count;
    }
  }
  const auto [entry, fresh] = totals_.try_emplace(std::move(key), Total{});
  if (fresh) {
    Cuts cuts(rank), taps;
    for (std::size_t axis = 0; axis < rank; ++axis)
      if (operand.step[axis] > 0) cuts[axis] = stretches(problem_.space[axis], tiles.tiles[axis], piece(axis));
    if (window_in_parts(problem_))
      for (std::size_t axis = 0; axis < rank; ++axis)
        taps.push_back(stretches(problem_.taps[axis], problem_.tap_tiles[axis], problem_.tap_tiles[axis]));
    const TensorMap::Sweep swept = maps_[number]->sweep(cuts, taps);
    entry->second = {swept.bytes, swept.transfers};
  }
  return {entry->second.bytes * times, entry->second.transfers * times};
}

double Prepared::busy(const VectorStage& stage, const VectorTiles& tiles, const std::vector<Sizes>& sizes, bool first,
                      std::vector<std::int64_t>& size, std::size_t axis, double count) {
  const std::size_t rank = problem_.space.size();
  if (axis == sizes.size()) {
    const Shape taps(size.begin() + static_cast<std::ptrdiff_t>(rank), size.end());
    return static_cast<double>(stage_latency(problem_, stage, tiles, size, taps, first, closed_form_).busy) * count;
  }
  double cycles = 0;
  for (const auto& [extent, times] : sizes[axis]) {
    size[axis] = extent;
    cycles += busy(stage, tiles, sizes, first, size, axis + 1, count * static_cast<double>(times));
  }
  return cycles;
}

/// `streams`: see `total`. The first tile of a row may run other functions than later tiles.
double Prepared::busy(const VectorStage& stage, const VectorTiles& tiles, bool streams) {
  const std::size_t rank = problem_.space.size();
  const bool rows_only = !streams && mapping::streams(problem_, tiles);
  std::vector<Sizes> all, begins;
  const auto add = [&](std::int64_t extent, std::int64_t tile, std::int64_t piece, bool once, bool follows, bool back) {
    Sizes& sizes = all.emplace_back();
    for (const Stretch& stretch : stretches(extent, tile, piece)) sizes.push_back({stretch.size, stretch.count});
    const std::int64_t end = extent % tile > 0 && back ? extent % tile : std::min(extent, tile);
    if (once) sizes = {{end, 1}};
    begins.push_back(follows ? Sizes{{end, 1}} : sizes);
  };
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const bool row = problem_.reduced[axis], scanned = problem_.scanned == static_cast<int>(axis);
    const std::int64_t tile = tiles.tiles[axis];
    const std::int64_t piece = stage.points || tiles.sub.empty() ? tile : std::min(tile, tiles.sub[axis]);
    add(std::max<std::int64_t>(1, problem_.space[axis]), tile, piece, row && rows_only, row || scanned,
        scanned && problem_.backward);
  }
  if (window_in_parts(problem_))
    for (std::size_t axis = 0; axis < problem_.taps.size(); ++axis)
      add(problem_.taps[axis], problem_.tap_tiles[axis], problem_.tap_tiles[axis], !streams, true, false);
  std::vector<std::int64_t> size(all.size(), 1);
  double cycles = busy(stage, tiles, all, false, size, 0, 1);
  if (stage.first)
    cycles += busy(stage, tiles, begins, true, size, 0, 1) - busy(stage, tiles, begins, false, size, 0, 1);
  return cycles;
}

}  // namespace tilesim::mapping
