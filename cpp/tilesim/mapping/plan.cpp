#include "tilesim/mapping/plan.hpp"

#include <algorithm>

#include "tilesim/base/shape.hpp"

namespace tilesim::mapping {

namespace {

bool has(std::uint64_t dims, int dim) { return dims >> dim & 1; }

/// Calls `take` with a buffer's extent per axis: the used part of a tile, or of all tiles if sums cover several.
template <typename Take>
void for_each_extent(const Problem& problem, const Nest& nest, std::uint64_t whole, const Access& access, Take take,
                     bool piece = false) {
  for (const AxisAccess& axis : access.axes) {
    std::int64_t extent = axis.window;
    for (const AxisAccess::Term& term : axis.terms) {
      const auto d = static_cast<std::size_t>(term.dim);
      const std::int64_t own = has(whole, term.dim) ? problem.domain.extents[d]
                               : piece              ? sub_of(problem, nest, d)
                                                    : tile_of(problem, nest, d);
      extent += std::abs(term.coefficient) * (own - 1);
    }
    take(extent);
  }
}

/// Whether the vector unit finishes a tile in pieces, with inputs and outputs in buffers for one piece. A reduction
/// needs the full tile.
bool finishes_pieces(const Problem& problem, const Nest& nest) {
  if (nest.sub.empty() || problem.on_vector || problem.counted_by_data >= 0) return false;
  return std::all_of(problem.outputs.begin(), problem.outputs.end(),
                     [](const Problem::Output& output) { return output.reduced.empty(); });
}

/// Elements of a tile, or of a piece, of an epilogue output.
std::int64_t elements_of(const Problem& problem, const Nest& nest, const Problem::Output& output, bool piece) {
  std::int64_t elements = 1;
  int axis = 0;
  const auto take = [&](std::int64_t extent) {
    const bool reduced = std::find(output.reduced.begin(), output.reduced.end(), axis++) != output.reduced.end();
    elements *= reduced ? 1 : extent;
  };
  for_each_extent(problem, nest, 0, finished_access(problem), take, piece);
  return elements;
}

/// Elements of a tile, or of a piece, of a leaf.
std::int64_t elements_of(const Problem& problem, const Nest& nest, const Problem::Leaf& leaf, bool piece) {
  std::int64_t elements = 1;
  for_each_extent(
      problem, nest, 0, leaf.access, [&](std::int64_t extent) { elements *= extent; }, piece && leaf.of == 2);
  return elements;
}

std::int64_t ring_bytes(DType dtype, std::int64_t elements, std::int64_t buffers) {
  return round_up(packed_bytes(dtype, elements), 64) * buffers;
}

}  // namespace

const Access& access_of(const Problem& problem, std::size_t operand) {
  if (operand >= 3 + problem.leaves.size()) return problem.outputs[operand - 3 - problem.leaves.size()].access;
  if (operand >= 3) return problem.leaves[operand - 3].access;
  return operand < 2 ? problem.domain.operands[operand] : problem.domain.results[0];
}

Access finished_access(const Problem& problem) {
  Access access = problem.domain.results[0];
  std::erase_if(access.axes,
                [&](const AxisAccess& axis) { return !axis.terms.empty() && axis.terms[0].dim == problem.siblings; });
  return access;
}

std::int64_t buffer_elements(const Problem& problem, const Nest& nest, std::uint64_t whole, std::size_t operand) {
  const Shape along = taken_along(problem, nest, operand);
  std::int64_t elements = 1;
  std::size_t axis = 0;
  for_each_extent(problem, nest, operand == 2 ? whole : 0, access_of(problem, operand), [&](std::int64_t extent) {
    elements *= along.empty() ? extent : extent + along[axis];
    ++axis;
  });
  return elements;
}

std::uint64_t dims_of(const Access& access) {
  std::uint64_t dims = 0;
  for (const AxisAccess& axis : access.axes)
    for (const AxisAccess::Term& term : axis.terms) dims |= std::uint64_t{1} << term.dim;
  return dims;
}

OwnDims own_dims(const Problem& problem) {
  OwnDims own{};
  for (std::size_t operand = 0; operand < 3; ++operand) own[operand] = dims_of(access_of(problem, operand));
  return own;
}

/// The innermost loop on which an operand depends loads it; sums begin outside all contraction loops.
LoopPlan plan_loops(const Problem& problem, const Nest& nest, const OwnDims& own) {
  LoopPlan plan;
  plan.loops.reserve(nest.order.size());
  bool inside = false;
  for (std::size_t place = 0; place < nest.order.size(); ++place) {
    const int dim = nest.order[place];
    const auto d = static_cast<std::size_t>(dim);
    const std::int64_t extent = problem.domain.extents[d];
    if (nest.tiles[d] >= extent && dim != problem.counted_by_data) continue;
    const bool reduction = problem.domain.reduction[d];
    plan.loops.push_back({dim, reduction, place, ceil_div(extent, nest.tiles[d])});
    for (std::size_t operand = 0; operand < 2; ++operand)
      if (has(own[operand], dim)) plan.level[operand] = plan.loops.size();
    if (inside && !reduction) plan.whole |= std::uint64_t{1} << dim;
    inside |= reduction;
    if (!inside) plan.level[2] = plan.loops.size();
  }
  return plan;
}

std::size_t LoopPlan::depth_in_order(std::size_t operand) const {
  return level[operand] == 0 ? 0 : loops[level[operand] - 1].place + 1;
}

LoopPlan::Fetches LoopPlan::fetches(std::size_t operand, const OwnDims& own) const {
  Fetches result;
  for (std::size_t i = 0; i < loops.size(); ++i) {
    const Loop& loop = loops[i];
    if (operand < 2 ? i >= level[operand] : loop.reduction) continue;
    result.transfers *= loop.trips;
    if (!has(own[operand], loop.dim)) result.repeats *= loop.trips;
  }
  return result;
}

bool Demand::fits(const Share& machine) const {
  return scratchpad <= machine.core.scratchpad.bytes && accumulator <= machine.core.scratchpad.accumulator_bytes;
}

Demand demand(const Problem& problem, const Nest& nest, const LoopPlan& loops, const Share& machine) {
  Demand need;
  for (std::size_t operand = 0; operand < 2; ++operand) {
    const std::int64_t tile = buffer_elements(problem, nest, loops.whole, operand);
    const std::int64_t buffers = nest.depths[operand] + (sends(problem, nest, operand) ? sending_buffers : 0);
    need.scratchpad += ring_bytes(problem.dtypes[operand], tile, buffers);
  }
  if (nest.unfold > 0)
    need.scratchpad += ring_bytes(problem.dtypes[0], unfolded_elements(problem, nest), unfolded_buffers);
  const std::int64_t elements = buffer_elements(problem, nest, loops.whole, 2);
  const std::int64_t sums = ring_bytes(problem.dtypes[2], elements, nest.depths[2]);
  (machine.core.scratchpad.accumulator_bytes > 0 && !problem.on_vector ? need.accumulator : need.scratchpad) += sums;
  const bool piece = finishes_pieces(problem, nest);
  for (const Problem::Leaf& leaf : problem.leaves)
    need.scratchpad += ring_bytes(leaf.dtype, elements_of(problem, nest, leaf, piece), vector_buffers);
  for (const Problem::Output& output : problem.outputs)
    need.scratchpad += ring_bytes(output.dtype, elements_of(problem, nest, output, piece), vector_buffers);
  return need;
}

std::int64_t pieces_of(const Problem& problem, const Nest& nest, std::size_t operand) {
  if (nest.sub.empty() || (operand < 2 && (problem.computed[operand] || sends(problem, nest, operand)))) return 1;
  const std::uint64_t own = own_dims(problem)[operand];
  std::int64_t count = 1;
  for (std::size_t d = 0; d < nest.sub.size(); ++d)
    if (has(own, static_cast<int>(d))) count *= ceil_div(tile_of(problem, nest, d), sub_of(problem, nest, d));
  return count;
}

Nest in_whole_tiles(Nest nest) {
  nest.sub.clear();
  return nest;
}

std::int64_t most_leaders(const Problem& problem, std::size_t operand) {
  const bool both = sharing(problem, 0) > 1 && sharing(problem, 1) > 1;
  return std::max<std::int64_t>(1, sharing(problem, operand) / (both ? 2 : 1));
}

namespace {

/// The largest number of leaders that divides the ring's depth.
std::int64_t leaders_of(const Problem& problem, std::size_t operand, std::int64_t depth, std::int64_t tiles) {
  std::int64_t count = std::min({most_leaders(problem, operand), depth, tiles});
  while (depth % count != 0) --count;
  return count;
}

}  // namespace

KernelPlan plan(const Problem& problem, const Nest& nest) {
  const OwnDims own = own_dims(problem);
  KernelPlan plan{plan_loops(problem, nest, own), {}, {}, {}, {}, {}};
  if (!nest.sub.empty() && !problem.on_vector && problem.counted_by_data < 0)
    for (const auto* dims : {&problem.batch_dims, &problem.k_dims, &problem.m_dims, &problem.n_dims})
      for (int dim : *dims)
        if (const auto d = static_cast<std::size_t>(dim); sub_of(problem, nest, d) < tile_of(problem, nest, d))
          plan.cut.push_back(dim);
  for (std::size_t operand = 0; operand < 3; ++operand) {
    KernelPlan::TileRing& buffer = plan.buffers[operand];
    buffer.along = taken_along(problem, nest, operand);
    buffer.along.resize(access_of(problem, operand).axes.size(), 0);
    for_each_extent(problem, nest, operand == 2 ? plan.whole : 0, access_of(problem, operand),
                    [&](std::int64_t extent) {
                      buffer.extents.push_back(extent + buffer.along[buffer.extents.size()]);
                      buffer.elements *= buffer.extents.back();
                    });
    buffer.depth = nest.depths[operand];
    buffer.sent = operand < 2 && sends(problem, nest, operand);
    if (buffer.sent) buffer.leaders = leaders_of(problem, operand, buffer.depth, plan.fetches(operand, own).transfers);
    buffer.pieces = plan.cut.empty() ? 1 : pieces_of(problem, nest, operand);
    for (int dim : plan.cut)
      if (buffer.pieces > 1 && has(own[operand], dim)) buffer.cut.push_back(dim);
  }
  plan.unfolded.depth = nest.unfold > 0 ? unfolded_buffers : 0;
  if (nest.unfold > 0) plan.unfolded.extents = unfolded_extents(problem, nest);
  plan.unfolded.elements = element_count(plan.unfolded.extents);
  const bool pieces = finishes_pieces(problem, nest);
  const auto vector_buffer = [&](const Access& access, const std::vector<int>& reduced, bool piece) {
    KernelPlan::TileRing buffer;
    const auto take = [&](std::int64_t extent) {
      const auto axis = static_cast<int>(buffer.extents.size());
      buffer.extents.push_back(std::find(reduced.begin(), reduced.end(), axis) != reduced.end() ? 1 : extent);
      buffer.elements *= buffer.extents.back();
    };
    for_each_extent(problem, nest, 0, access, take, piece);
    buffer.depth = vector_buffers;
    return buffer;
  };
  for (const Problem::Leaf& leaf : problem.leaves)
    plan.leaves.push_back(vector_buffer(leaf.access, {}, pieces && leaf.of == 2));
  for (const Problem::Output& output : problem.outputs)
    plan.outputs.push_back(vector_buffer(finished_access(problem), output.reduced, pieces));
  return plan;
}

PieceOrder piece_order(const Problem& problem, const std::vector<int>& cut, const bool (&fetched)[2]) {
  PieceOrder order;
  const OwnDims own = own_dims(problem);
  for (int dim : cut) {
    const bool shared = (!fetched[0] || has(own[0], dim)) && (!fetched[1] || has(own[1], dim));
    if (shared) order.shared.push_back(dim);
    for (std::size_t operand = 0; operand < 2; ++operand)
      if (fetched[operand] && has(own[operand], dim) && !shared) order.own[operand].push_back(dim);
  }
  return order;
}

}  // namespace tilesim::mapping
