// Cycles of array and vector unit for the tiles of a nest, by the units' closed forms, with the split of the lowering.
#include <algorithm>
#include <map>

#include "tilesim/base/shape.hpp"
#include "tilesim/mapping/cost.hpp"

namespace tilesim::mapping {

std::int64_t CostModel::preparing(std::size_t operand, const Nest& nest) {
  if (problem_.prologue_functions[operand] == 0) return 0;  // the operand is not computed
  Descriptor d;
  d.kind = ComputeKind::vector;
  d.dtype = problem_.dtypes[operand];
  d.elements = tile_elements(problem_, nest, operand);
  const std::vector<AxisAccess>& axes = access(operand).axes;
  std::int64_t lanes = axes.empty() ? 1 : axes.back().window;
  if (!axes.empty())
    for (const AxisAccess::Term& term : axes.back().terms)
      lanes += std::abs(term.coefficient) * (tile_of(problem_, nest, static_cast<std::size_t>(term.dim)) - 1);
  d.lane_extent = lanes;
  d.functions = {static_cast<std::int32_t>(problem_.prologue_functions[operand]), 0, 0, 0};
  const std::int64_t extents[] = {d.elements / std::max<std::int64_t>(1, lanes), lanes};
  if (d.elements == extents[0] * lanes) add_moves(d, prologue_[operand], extents, 1);
  return latency_.latency(d, {}).busy;
}

/// Cycles of the vector unit for the epilogue of one tile.
std::int64_t CostModel::finishing(const Extents& tile, const TileWork& unit) {
  if (problem_.epilogue_functions == 0) return 0;
  Shape extents;
  for (const AxisAccess& axis : access(2).axes) {
    extents.push_back(1);
    for (const AxisAccess::Term& term : axis.terms)
      if (term.dim != problem_.siblings)  // one compute reads the sums of all siblings
        extents.back() += std::abs(term.coefficient) * (tile[static_cast<std::size_t>(term.dim)] - 1);
  }
  Descriptor d;
  d.kind = ComputeKind::vector;
  d.dtype = problem_.dtypes[2];
  d.elements = element_count(extents);
  if (const int lane = lane_axis(problem_, unit); lane >= 0) d.lane_extent = extents[static_cast<std::size_t>(lane)];
  d.functions = {static_cast<std::int32_t>(problem_.epilogue_functions), 0, 0, 0};
  if (const int lane = lane_axis(problem_, unit); lane >= 0) add_moves(d, epilogue_, extents, lane);
  return latency_.latency(d, {}).busy;
}

/// Cycles of `count` tiles with these extents, of which `begin` tiles start new sums.
double CostModel::busy(const Extents& tile, const TileWork& unit, double count, double begin) {
  const auto cycles = [&](bool adds) {
    return static_cast<double>(tile_busy(problem_, unit, tile, machine_, latency_, adds));
  };
  return (begin > 0 ? begin * cycles(false) : 0) + (count > begin ? (count - begin) * cycles(true) : 0);
}

/// Sums the work over all tiles of the nest; full and partial tiles are counted per size. Stops above `limit`.
CostModel::Work CostModel::work(const Nest& nest, double limit) {
  if (!nest.sub.empty()) return work_in_pieces(nest);
  const std::size_t dims = nest.tiles.size();
  const TileWork unit = tile_work(problem_, nest, machine_, latency_);
  Extents tile(dims), rest(dims), ragged_dims;
  for (std::size_t d = 0; d < dims; ++d) {
    const std::int64_t extent = problem_.domain.extents[d];
    tile[d] = std::min(nest.tiles[d], extent);
    rest[d] = extent - (trips(nest, d) - 1) * nest.tiles[d];
    if (rest[d] != tile[d]) ragged_dims.push_back(static_cast<std::int64_t>(d));
  }
  Work total;
  for (std::uint32_t mask = 0; mask < (1U << ragged_dims.size()); ++mask) {
    Extents here = tile;
    double count = 1, results = 1;
    for (std::size_t d = 0; d < dims; ++d) {
      const auto found = std::find(ragged_dims.begin(), ragged_dims.end(), static_cast<std::int64_t>(d));
      const bool is_ragged = found != ragged_dims.end();
      const bool last = is_ragged && (mask >> (found - ragged_dims.begin()) & 1);
      const double trip = last ? 1 : static_cast<double>(trips(nest, d) - (is_ragged ? 1 : 0));
      if (last) here[d] = rest[d];
      count *= trip;
      if (!(reduced_ >> d & 1)) results *= trip;
    }
    bool reduced_full = true;  // each result tile begins and ends once
    for (std::size_t i = 0; i < ragged_dims.size(); ++i)
      if (reduced_ >> ragged_dims[i] & 1) reduced_full &= !(mask >> i & 1);
    total.busy += busy(here, unit, count, reduced_full ? results : 0);
    if (reduced_full) total.finishing += results * static_cast<double>(finishing(here, unit));
    if (std::max(total.busy, total.finishing) > limit) break;
  }
  return total;
}

double CostModel::least_cycles(const Nest& nest, double limit) {
  const double around = load_wait_ + store_wait_ + static_cast<double>(machine_.core.kernel_launch_cycles);
  const Work least = work(nest, limit - around);
  return std::max(least.busy, least.finishing) + around;
}

/// Sums the work over all pieces, which are counted per size.
CostModel::Work CostModel::work_in_pieces(const Nest& nest) {
  const std::size_t dims = nest.tiles.size();
  const TileWork unit = tile_work(problem_, nest, machine_, latency_);
  std::vector<std::map<std::int64_t, std::int64_t>> sizes(dims);
  for (std::size_t d = 0; d < dims; ++d) {
    const std::int64_t each = pieces(nest, d), tiles = trips(nest, d);
    for (std::int64_t piece = 0; piece < each; ++piece) {
      const Interval whole = interval(nest, d, piece), last = interval(nest, d, (tiles - 1) * each + piece);
      if (tiles > 1) sizes[d][whole.end - whole.begin] += tiles - 1;
      if (last.end > last.begin) ++sizes[d][last.end - last.begin];
    }
  }
  Extents here(dims);
  Work total;
  const auto add = [&](const auto& self, std::size_t d, double count, double results) -> void {
    if (d == dims) {
      total.busy += busy(here, unit, count, results);
      if (results > 0) total.finishing += results * static_cast<double>(finishing(here, unit));
      return;
    }
    bool first = true;  // each piece of the result begins and ends once
    for (const auto& [size, times] : sizes[d]) {
      here[d] = size;
      const auto number = static_cast<double>(times);
      self(self, d + 1, count * number, reduced_ >> d & 1 ? (first ? results : 0) : results * number);
      first = false;
    }
  };
  add(add, 0, 1, 1);
  return total;
}

}  // namespace tilesim::mapping
