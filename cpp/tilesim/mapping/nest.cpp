#include "tilesim/mapping/nest.hpp"

#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/mapping/plan.hpp"

namespace tilesim::mapping {

namespace {

constexpr std::size_t most_dims = 64;         ///< of a product: sets of dims are 64-bit masks
constexpr std::int64_t most_depth = 1 << 10;  ///< limit on a ring, so that its bytes fit 64 bits

std::int64_t trips(const Problem& problem, const Nest& nest, int dim) {
  const auto d = static_cast<std::size_t>(dim);
  return ceil_div(problem.domain.extents[d], nest.tiles[d]);
}

/// Sum over all tiles of one term: number of positions inside the tensor's axis that the tile reaches. `low`, `high`:
/// added by other terms. Tiles completely inside have equal numbers, so that long axes take constant time.
std::int64_t swept_by(const AxisAccess::Term& term, std::int64_t extent, std::int64_t tile, std::int64_t low,
                      std::int64_t high, std::int64_t size) {
  const std::int64_t c = term.coefficient, step = c * tile, count = ceil_div(extent, tile);
  const auto inside = [&](std::int64_t i) {
    const std::int64_t begin = i * tile, end = std::min(extent, begin + tile) - 1;
    const std::int64_t start = low + c * (c >= 0 ? begin : end), last = high + c * (c >= 0 ? end : begin);
    return std::max<std::int64_t>(0, std::min(last, size - 1) - std::max<std::int64_t>(start, 0) + 1);
  };
  std::int64_t first = 0, end = 0;
  if (c > 0) {
    const std::int64_t far = high + c * (tile - 1);  // last position of the first tile
    first = std::min(low < 0 ? ceil_div(-low, step) : 0, count);
    end = std::min(far > size - 1 ? 0 : (size - 1 - far) / step + 1, extent / tile);
  }
  std::int64_t total = 0;
  for (std::int64_t i = 0; i < first; ++i) total += inside(i);
  if (end > first) total += (end - first) * inside(first);
  for (std::int64_t i = std::max(first, end); i < count; ++i) {
    if (c > 0 && low + step * i >= size) break;
    total += inside(i);
  }
  return total;
}

/// Sum over all combinations of tiles: extent of the region along one axis, inside the tensor.
std::int64_t swept_extent(const Problem& problem, const Nest& nest, const AxisAccess& axis, std::int64_t size) {
  if (axis.terms.empty()) return axis.constant >= 0 && axis.constant < size ? 1 : 0;
  std::size_t longest = 0;
  for (std::size_t i = 1; i < axis.terms.size(); ++i)
    if (trips(problem, nest, axis.terms[i].dim) > trips(problem, nest, axis.terms[longest].dim)) longest = i;
  const AxisAccess::Term& along = axis.terms[longest];
  std::vector<std::int64_t> index(axis.terms.size(), 0);
  std::int64_t total = 0;
  while (true) {
    std::int64_t low = axis.constant, high = axis.constant + axis.window - 1;
    for (std::size_t i = 0; i < axis.terms.size(); ++i) {
      if (i == longest) continue;
      const auto d = static_cast<std::size_t>(axis.terms[i].dim);
      const std::int64_t begin = index[i] * nest.tiles[d];
      const std::int64_t end = std::min(problem.domain.extents[d], begin + nest.tiles[d]) - 1;
      const std::int64_t c = axis.terms[i].coefficient;
      low += c * (c >= 0 ? begin : end);
      high += c * (c >= 0 ? end : begin);
    }
    const auto d = static_cast<std::size_t>(along.dim);
    total += swept_by(along, problem.domain.extents[d], nest.tiles[d], low, high, size);
    std::size_t i = 0;
    for (; i < index.size(); ++i) {
      if (i == longest) continue;
      if (++index[i] < trips(problem, nest, axis.terms[i].dim)) break;
      index[i] = 0;
    }
    if (i == index.size()) return total;
  }
}

struct Reach { std::int64_t begin = 0, end = 0; };  ///< range along an axis, not clipped to the tensor

/// The range of the first tile.
Reach reach_of(const Problem& problem, const Nest& nest, const AxisAccess& axis) {
  Reach reach{axis.constant, axis.constant + axis.window};
  for (const AxisAccess::Term& term : axis.terms) {
    const auto d = static_cast<std::size_t>(term.dim);
    const std::int64_t far = term.coefficient * (std::min(nest.tiles[d], problem.domain.extents[d]) - 1);
    (far < 0 ? reach.begin : reach.end) += far;
  }
  return reach;
}

/// Whether every tile covers all positions of the axis that the operation reads.
bool in_one_tile(const Problem& problem, const Nest& nest, const AxisAccess& axis) {
  return std::all_of(axis.terms.begin(), axis.terms.end(), [&](const AxisAccess::Term& term) {
    const auto d = static_cast<std::size_t>(term.dim);
    const std::int64_t extent = problem.domain.extents[d];
    return nest.tiles[d] >= extent && sub_of(problem, nest, d) >= extent &&
           (problem.parts.empty() || problem.parts[d] == 1);
  });
}

}  // namespace

std::vector<std::int64_t> taken_along(const Problem& problem, const Nest& nest, std::size_t operand) {
  const std::vector<AxisAccess>& axes = access_of(problem, operand).axes;
  const std::size_t rank = axes.size();
  std::vector<std::int64_t> along;
  if (operand >= 2 || problem.burst_bytes[operand] == 0) return along;
  const std::int64_t burst = problem.burst_bytes[operand];
  const std::vector<int>& order = problem.minor_to_major[operand];
  const auto axis_at = [&](std::size_t i) {
    return order.size() == rank ? static_cast<std::size_t>(order[i]) : rank - 1 - i;
  };
  const auto several = [&](std::size_t i) {
    const Reach reach = reach_of(problem, nest, axes[axis_at(i)]);
    return reach.end - reach.begin > 1;
  };
  std::size_t outermost = rank;  // number of axes up to the outermost one with several elements per tile
  while (outermost > 0 && !several(outermost - 1)) --outermost;
  std::int64_t run = 1;
  for (std::size_t i = 0; i + 1 < outermost; ++i) {
    const AxisAccess& axis = axes[axis_at(i)];
    const std::int64_t size = problem.shapes[operand][axis_at(i)];
    const Reach reach = reach_of(problem, nest, axis);
    if (axis.divisor != 1 || reach.begin > 0 || !in_one_tile(problem, nest, axis)) break;
    if (reach.end < size) {
      const DType dtype = problem.memory_dtypes[operand];
      const std::int64_t apart = round_up((burst - 1) / 2 + packed_bytes(dtype, run * reach.end), burst);
      if (packed_bytes(dtype, run * size) > apart) break;
      along.resize(rank, 0);
      along[axis_at(i)] = size - reach.end;
    }
    run *= size;
  }
  return along;
}

namespace {

bool moves_along(const Access& access, int dim) {
  for (const AxisAccess& axis : access.axes)
    for (const AxisAccess::Term& term : axis.terms)
      if (term.dim == dim) return true;
  return false;
}

}  // namespace

std::int64_t sharing(const Problem& problem, std::size_t operand) {
  if (operand >= 2 || problem.computed[operand]) return 1;
  std::int64_t cores = 1;
  for (std::size_t d = 0; d < problem.parts.size(); ++d)
    if (problem.parts[d] > 1 && !moves_along(problem.domain.operands[operand], static_cast<int>(d)))
      cores *= problem.parts[d];
  return cores;
}

bool sends(const Problem& problem, const Nest& nest, std::size_t operand) {
  if (!problem.multicast || sharing(problem, operand) < 2) return false;
  for (std::size_t d = 0; d < problem.least.size(); ++d)
    if (problem.parts[d] > 1 && !moves_along(problem.domain.operands[operand], static_cast<int>(d)) &&
        ceil_div(problem.least[d], nest.tiles[d]) != trips(problem, nest, static_cast<int>(d)))
      return false;
  return true;
}

std::int64_t tile_of(const Problem& problem, const Nest& nest, std::size_t dim) {
  return std::min(nest.tiles[dim], problem.domain.extents[dim]);
}

std::int64_t sub_of(const Problem& problem, const Nest& nest, std::size_t dim) {
  const std::int64_t tile = tile_of(problem, nest, dim);
  return nest.sub.empty() ? tile : std::min(nest.sub[dim], tile);
}

Nest in_pieces(const std::vector<std::int64_t>& extents, Nest nest, const std::vector<std::int64_t>& pieces,
               const std::vector<std::int64_t>& units) {
  bool cut = false;
  nest.sub = nest.tiles;
  for (std::size_t d = 0; d < nest.tiles.size(); ++d) {
    const std::int64_t tile = std::min(nest.tiles[d], extents[d]);
    nest.sub[d] = std::min(tile, round_up(ceil_div(tile, pieces[d]), units[d]));
    cut |= nest.sub[d] < tile;
  }
  if (!cut) nest.sub.clear();
  return nest;
}

namespace {

/// The error in the sub-tile sizes; empty if they are valid.
std::string wrong_sizes(const Problem& problem, const Nest& nest) {
  const std::size_t dims = nest.tiles.size();
  if (nest.sub.empty()) return {};
  if (nest.sub.size() != dims) return "sub-tiles need " + std::to_string(dims) + " sizes, one per loop";
  for (std::size_t d = 0; d < dims; ++d) {
    const std::string& name = problem.domain.names[d];
    const std::int64_t size = nest.sub[d];
    if (size < 1) return "sub-tile size of " + name + " is " + std::to_string(size) + "; at least 1 is needed";
    if (size > nest.tiles[d])
      return "a sub-tile of " + std::to_string(size) + " along " + name + " is larger than the tile of " +
             std::to_string(nest.tiles[d]);
    if (size < tile_of(problem, nest, d) && (nest.on_vector || problem.on_vector))
      return "products on the vector unit take whole tiles, not sub-tiles";
  }
  return {};
}

/// The error in the sub-tiles of a nest with valid sizes; empty if they are legal.
std::string wrong_pieces(const Problem& problem, const Nest& nest, const LoopPlan& loops) {
  if (nest.sub.empty()) return {};
  const OwnDims own = own_dims(problem);
  std::int64_t pieces[3] = {1, 1, 1};
  for (std::size_t d = 0; d < nest.tiles.size(); ++d) {
    const int dim = static_cast<int>(d);
    if (nest.sub[d] >= tile_of(problem, nest, d)) continue;
    const std::string& name = problem.domain.names[d];
    if (loops.whole != 0 && !problem.domain.reduction[d])
      return "sums of several tiles stay on chip: their loop " + name + " cannot have sub-tiles too";
    for (std::size_t operand = 0; operand < 3; ++operand) {
      if (!(own[operand] >> dim & 1)) continue;
      pieces[operand] *= ceil_div(tile_of(problem, nest, d), nest.sub[d]);
      if (operand < 2 && bits(problem.dtypes[operand]) < 8)
        return "sub-tiles of elements smaller than a byte would share bytes";
      for (const AxisAccess& axis : access_of(problem, operand).axes) {
        bool self = false, other = false;
        for (const AxisAccess::Term& term : axis.terms) {
          if (term.dim == dim)
            self = true;
          else
            other |= tile_of(problem, nest, static_cast<std::size_t>(term.dim)) > 1;
        }
        if (self && other) return "windows of adjacent sub-tiles along " + name + " overlap";
      }
    }
  }
  for (std::size_t operand = 0; operand < 3; ++operand)
    if (pieces[operand] > most_pieces)
      return "a tile has " + std::to_string(pieces[operand]) + " pieces; at most " + std::to_string(most_pieces) +
             " are possible";
  return {};
}

}  // namespace

std::string wrong_contexts(std::int64_t contexts, const Share& machine) {
  const std::int64_t most = machine.core.contexts;
  if (contexts < 1 || contexts > most)
    return std::to_string(contexts) + " contexts; a core of " + machine.name + " has " + std::to_string(most);
  return {};
}

std::optional<std::pair<std::size_t, std::size_t>> stores_between(const Problem& problem, const Nest& nest) {
  for (const AxisAccess& axis : problem.domain.results[0].axes)
    for (const AxisAccess::Term& outer : axis.terms)
      for (const AxisAccess::Term& inner : axis.terms) {
        const auto o = static_cast<std::size_t>(outer.dim), i = static_cast<std::size_t>(inner.dim);
        if (outer.coefficient > inner.coefficient && nest.tiles[o] > 1 && nest.tiles[i] < problem.domain.extents[i])
          return std::pair(o, i);
      }
  return std::nullopt;
}

Legality legal(const Problem& problem, const Nest& nest, const Share& machine) {
  const std::size_t dims = problem.domain.extents.size();
  if (nest.tiles.size() != dims || nest.order.size() != dims || nest.depths.size() != 3)
    return {false, "a nest for " + problem.operation + " needs " + std::to_string(dims) +
                       " tile sizes, as many loops, and 3 depths"};
  std::vector<bool> seen(dims, false);
  for (int dim : nest.order) {
    if (dim < 0 || static_cast<std::size_t>(dim) >= dims || seen[static_cast<std::size_t>(dim)])
      return {false, "the loop order must name each dim once"};
    seen[static_cast<std::size_t>(dim)] = true;
  }
  for (std::size_t d = 0; d < dims; ++d)
    if (nest.tiles[d] < 1)
      return {false, "tile size of " + problem.domain.names[d] + " is " + std::to_string(nest.tiles[d]) +
                         "; at least 1 is needed"};
  for (std::int64_t depth : nest.depths)
    if (depth < 1 || depth > most_depth)
      return {false, "a ring needs a depth of 1 to " + std::to_string(most_depth) + ", not " + std::to_string(depth)};
  if (const auto d = static_cast<std::size_t>(problem.siblings);
      problem.siblings >= 0 && sub_of(problem, nest, d) < problem.domain.extents[d])
    return {false, "products that share an operand need one tile along " + problem.domain.names[d]};
  if (dims > most_dims) return {false, "a product has at most " + std::to_string(most_dims) + " dims"};
  if (const std::string wrong = wrong_sizes(problem, nest); !wrong.empty()) return {false, wrong};
  const LoopPlan loops = plan_loops(problem, nest, own_dims(problem));
  if (const std::string wrong = wrong_pieces(problem, nest, loops); !wrong.empty()) return {false, wrong};
  if (const std::string wrong = wrong_contexts(nest.contexts, machine); !wrong.empty()) return {false, wrong};
  if (const std::string wrong = wrong_pack(problem, nest, machine); !wrong.empty()) return {false, wrong};
  if (const std::string wrong = wrong_unfold(problem, nest, machine); !wrong.empty()) return {false, wrong};
  if (const auto between = stores_between(problem, nest))
    return {false, "several " + problem.domain.names[between->first] + " in a tile need all of " +
                       problem.domain.names[between->second] + ": intermediate results would be stored too"};
  const ScratchpadSpec& memory = machine.core.scratchpad;
  const Demand need = demand(problem, nest, loops, machine);
  if (need.scratchpad > memory.bytes)
    return {false, "tiles need " + std::to_string(need.scratchpad) + " bytes of scratchpad, the core has " +
                       std::to_string(memory.bytes)};
  if (need.accumulator > memory.accumulator_bytes)
    return {false, "partial sums need " + std::to_string(need.accumulator) + " bytes of accumulator, the core has " +
                       std::to_string(memory.accumulator_bytes)};
  return {};
}

std::int64_t tile_elements(const Problem& problem, const Nest& nest, std::size_t operand) {
  return buffer_elements(problem, nest, operand < 2 ? 0 : plan_loops(problem, nest, own_dims(problem)).whole, operand);
}

std::int64_t scratchpad_bytes(const Problem& problem, const Nest& nest, const Share& machine) {
  return demand(problem, nest, plan_loops(problem, nest, own_dims(problem)), machine).scratchpad;
}

Traffic traffic(const Problem& problem, const Nest& nest) {
  Traffic result;
  const OwnDims own = own_dims(problem);
  const LoopPlan loops = plan_loops(problem, nest, own);
  for (std::size_t operand = 0; operand < 3; ++operand) {
    const LoopPlan::Fetches fetches = loops.fetches(operand, own);
    std::int64_t elements = fetches.repeats;
    const Access& access = access_of(problem, operand);
    for (std::size_t axis = 0; axis < access.axes.size(); ++axis)
      elements *= swept_extent(problem, nest, access.axes[axis], problem.shapes[operand][axis]);
    result.elements.push_back(elements);
    result.transfers.push_back(fetches.transfers);
  }
  return result;
}

}  // namespace tilesim::mapping
