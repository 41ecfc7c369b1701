#include "tilesim/mapping/vector/moves.hpp"

#include <algorithm>

#include "tilesim/base/shape.hpp"
#include "tilesim/tile/movement.hpp"

namespace tilesim::mapping {

namespace {

constexpr std::int64_t unbounded = INT64_MAX / 8;

/// Elements that move along one of the two minor axes of a tiled tensor: full rows of lanes; full tiles if the region
/// starts at a tile and ends with the tensor.
std::int64_t tiled_length(const VectorOperand& operand, std::size_t i, std::int64_t low, std::int64_t length) {
  const std::int64_t granule = operand.layout[1 - i];
  if (i == 0) return ((low + length - 1) / granule - low / granule + 1) * granule;
  const bool to_end = low + length == operand.extents[1] && low % granule == 0;
  return to_end ? round_up(length, granule) : length;
}

/// Finds the parts per axis for which the busiest of `cores` cores has the fewest trips.
void divide(const std::vector<std::int64_t>& trips, std::size_t axis, std::int64_t cores, double count,
            std::vector<std::int64_t>& own, std::vector<std::int64_t>& best, double& least) {
  if (axis == trips.size()) {
    if (least < 0 || count < least) least = count, best = own;
    return;
  }
  for (std::int64_t parts = std::min(cores, trips[axis]); parts >= 1; --parts) {
    own[axis] = parts;
    divide(trips, axis + 1, cores / parts, count * static_cast<double>(ceil_div(trips[axis], parts)), own, best, least);
  }
}

}  // namespace

Moved moved(const VectorOperand& operand, const std::vector<std::int64_t>& strides,
            const std::vector<std::int64_t>& start, const std::vector<std::int64_t>& size, const Share& machine) {
  const std::size_t rank = operand.axes.size();
  const bool tiled = operand.layout.size() == 2 && rank >= 2;
  const std::int64_t burst = machine.memory.burst_bytes;
  std::int64_t offset = 0, elements = 1, run = bits(operand.dtype), runs = 1;
  bool contiguous = true, aligned = true;
  for (std::size_t i = 0; i < rank; ++i) {
    if (operand.axes[i] < 0) {
      if (tiled && i < 2) elements = saturating(elements, tiled_length(operand, i, 0, 1));
      continue;
    }
    const auto axis = static_cast<std::size_t>(operand.axes[i]);
    const std::int64_t step = std::max<std::int64_t>(1, operand.step[axis]), extent = operand.extents[i];
    const std::int64_t reach = operand.reach.empty() ? 1 : operand.reach[axis];
    const std::int64_t low = std::max<std::int64_t>(0, std::min(start[axis] * step, extent - 1));
    const std::int64_t length =
        std::clamp<std::int64_t>(step * (size[axis] - 1) + reach, 1, std::max<std::int64_t>(1, extent - low));
    offset += low * strides[i];
    if (tiled) elements = saturating(elements, i < 2 ? tiled_length(operand, i, low, length) : length);
    if (length == 1) continue;
    contiguous = contiguous && strides[i] == run;
    if (contiguous) {
      run = saturating(run, length);
    } else {
      runs = saturating(runs, length);
      aligned &= strides[i] / 8 % burst == 0;
    }
  }
  if (tiled) return {offset / 8, packed_bytes(operand.dtype, std::min(elements, unbounded / 64))};
  const std::int64_t skew = aligned || runs == 1 ? offset / 8 % burst : (burst - 1) / 2;
  return {offset / 8, saturating(runs, round_up(skew + ceil_div(run, 8), burst))};
}

TileLatency turning(const VectorProblem& problem, const VectorOperand& operand, const VectorTiles& tiles,
                    const std::vector<std::int64_t>& size, const Share& machine) {
  if (!problem.turns || !changes_lanes(problem, operand, tiles)) return {};
  const std::size_t rank = problem.space.size();
  std::vector<std::int64_t> extent(rank);
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const std::int64_t reach = operand.reach.empty() ? 1 : operand.reach[axis], step = operand.step[axis];
    extent[axis] = step == 0 ? 1 : std::min(unbounded / 8, saturating(step, size[axis] - 1) + reach);
  }
  // in memory: order of the tensor's axes; in the tile: lane axis innermost
  std::vector<ViewDim> memory(rank), tile(rank);
  std::int64_t stride = 1;
  for (const int axis : operand.axes) {
    if (axis < 0 || memory[static_cast<std::size_t>(axis)].stride != 0) continue;
    memory[static_cast<std::size_t>(axis)].stride = stride;
    stride = saturating(stride, extent[static_cast<std::size_t>(axis)]);
  }
  stride = 1;
  const auto lane = static_cast<std::size_t>(tiles.lane);
  const auto lay = [&](std::size_t axis) {
    memory[axis].extent = tile[axis].extent = extent[axis];
    tile[axis].stride = stride;
    stride = saturating(stride, extent[axis]);
  };
  lay(lane);
  for (std::size_t axis = rank; axis-- > 0;)
    if (axis != lane) lay(axis);
  const bool loaded = operand.use == VectorOperand::Use::load;
  Descriptor d = permute_descriptor(operand.dtype, loaded ? move_of(memory, tile) : move_of(tile, memory), true);
  d.elements = std::min(unbounded / 64, held_elements(problem, operand, size));
  return ClosedForm(machine).latency(d, {}, no_source());
}

CoreTrips busiest_trips(const VectorProblem& problem, const VectorTiles& tiles, std::int64_t cores) {
  const std::size_t rank = problem.space.size();
  CoreTrips result;
  std::vector<std::int64_t> apart(rank, 1), own(rank, 1);
  for (std::size_t axis = 0; axis < rank; ++axis) {
    result.trips.push_back(ceil_div(std::max<std::int64_t>(1, problem.space[axis]), tiles.tiles[axis]));
    const bool joined = problem.reduced[axis] || problem.scanned == static_cast<int>(axis) ||
                        (axis < problem.carried.size() && problem.carried[axis]);
    if (!joined) apart[axis] = result.trips[axis];
  }
  result.parts.assign(rank, 1);
  if (cores <= 1) return result;
  double least = -1;
  divide(apart, 0, cores, 1, own, result.parts, least);
  for (std::size_t axis = 0; axis < rank; ++axis) {
    result.workers *= static_cast<double>(result.parts[axis]);
    result.trips[axis] = ceil_div(result.trips[axis], result.parts[axis]);
  }
  return result;
}

}  // namespace tilesim::mapping
