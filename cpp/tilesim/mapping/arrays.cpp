#include "tilesim/mapping/arrays.hpp"

#include <algorithm>
#include <array>

#include "tilesim/base/shape.hpp"
#include "tilesim/mapping/unfolding.hpp"
#include "tilesim/tile/vector_work.hpp"

namespace tilesim::mapping {

std::int64_t ArrayGrid::used() const {
  std::int64_t product = 1;
  for (const Cut& cut : cuts) product *= cut.parts;
  return product;
}

std::int64_t ArrayGrid::part(std::size_t cut, std::int64_t array) const {
  for (std::size_t i = cuts.size() - 1; i > cut; --i) array /= cuts[i].parts;
  return array % cuts[cut].parts;
}

std::int64_t ArrayGrid::largest(int dim, std::int64_t extent) const {
  for (const Cut& cut : cuts)
    if (cut.dim == dim) return std::min(extent, cut.chunk);
  return extent;
}

namespace {

/// The row dim along the sublanes if memory does not determine it: the dim that fills full registers best.
int densest_dim(const Problem& problem, const Share& machine) {
  const std::int64_t sublanes = machine.layout.tile.size() == 2 ? machine.layout.tile[0] : 1;
  const auto padding = [&](int dim) {
    const std::int64_t extent = std::max<std::int64_t>(1, problem.domain.extents[static_cast<std::size_t>(dim)]);
    return static_cast<double>(round_up(extent, sublanes)) / static_cast<double>(extent);
  };
  int best = problem.m_dims.back();
  for (int dim : problem.m_dims)
    if (padding(dim) < padding(best)) best = dim;
  return best;
}

/// The row dim along the sublanes in memory, which arrays use as innermost row dim. At least one row dim must exist.
int sublane_dim(const Problem& problem, const Share& machine) {
  if (problem.computed[0]) return densest_dim(problem, machine);
  const std::vector<AxisAccess>& axes = problem.domain.operands[0].axes;
  const std::vector<int>& order = problem.minor_to_major[0];
  if (axes.size() > 1) {
    const std::size_t second = order.size() == axes.size() ? static_cast<std::size_t>(order[1]) : axes.size() - 2;
    const std::vector<AxisAccess::Term>& terms = axes[second].terms;
    if (!terms.empty() && std::count(problem.m_dims.begin(), problem.m_dims.end(), terms[0].dim) > 0)
      return terms[0].dim;
  }
  return densest_dim(problem, machine);
}

/// Most contracted elements per vector compute over the full domain; with more taps, computes are in a loop.
constexpr std::int64_t largest_compute = 1 << 20;

/// Splits a dim into `parts` parts; adds no cut if only one part results.
void add_cut(std::vector<ArrayGrid::Cut>& cuts, int dim, std::int64_t extent, std::int64_t parts,
             std::int64_t granule) {
  std::int64_t chunk = ceil_div(extent, parts);
  if (chunk > granule) chunk = round_up(chunk, granule);
  if (chunk < extent) cuts.push_back({dim, ceil_div(extent, chunk), chunk});
}

Descriptor array_descriptor(const ArrayDims& dims, const std::vector<std::int64_t>& tile, const ArrayGrid& grid,
                            const Share& machine) {
  Descriptor d = product_descriptor(dims, machine.layout, [&](int i) {
    const int dim = dims.order[static_cast<std::size_t>(i)];
    return grid.largest(dim, tile[static_cast<std::size_t>(dim)]);
  });
  if (is_two_of_four(dims.b)) d.k *= pattern_neighbours;
  return d;
}

/// Work of one multiplication and one addition per tap, including reads and writes per register.
VectorWork multiplied_by(const Problem& problem, const Nest& nest, const VectorTaps& taps) {
  std::vector<int> dims;
  for (const auto* group : {&problem.batch_dims, &problem.m_dims, &problem.n_dims, &taps.summed})
    dims.insert(dims.end(), group->begin(), group->end());
  VectorWork work{{problem.k_dims.empty() ? 0 : 1, 1, 0, 0}, 0, 0};
  if (dims.size() > most_vector_dims) return work;
  const auto dims_of = [&](const Access& access) {
    std::uint32_t found = 0;
    for (std::size_t i = 0; i < dims.size(); ++i)
      for (const AxisAccess& axis : access.axes)
        for (const AxisAccess::Term& term : axis.terms) found |= term.dim == dims[i] ? std::uint32_t{1} << i : 0;
    return found;
  };
  const std::array<VectorRead, 2> reads{{{problem.dtypes[0], dims_of(problem.domain.operands[0])},
                                         {problem.dtypes[1], dims_of(problem.domain.operands[1])}}};
  VectorWrite write{2, problem.dtypes[2], 0, Combiner::add, !taps.looped.empty()};
  for (std::size_t i = dims.size() - taps.summed.size(); i < dims.size(); ++i) write.combined |= std::uint32_t{1} << i;
  for (const int dim : problem.k_dims) {
    const auto d = static_cast<std::size_t>(dim);
    write.accumulate |= tile_of(problem, nest, d) < problem.domain.extents[d];
  }
  const std::array<VectorNode, 3> nodes{{{.op = VectorNode::Op::input, .index = 0, .dtype = problem.dtypes[0]},
                                         {.op = VectorNode::Op::input, .index = 1, .dtype = problem.dtypes[1]},
                                         {.op = VectorNode::Op::function,
                                          .function = Function::multiply,
                                          .arguments = {0, 1, -1},
                                          .dtype = problem.dtypes[2]}}};
  work.pattern = pattern_of(nodes, reads, {&write, 1});
  return work;
}

TileCycles on_vector(const Problem& problem, const TileWork& work, const std::vector<std::int64_t>& tile,
                     LatencyModel& latency) {
  std::vector<int> dims;
  for (const auto* group : {&problem.batch_dims, &problem.m_dims, &problem.n_dims, &work.taps.summed})
    dims.insert(dims.end(), group->begin(), group->end());
  const auto lane = std::find(dims.begin(), dims.end(), work.lane);
  const Descriptor d = vector_descriptor(problem.dtypes[0], work.multiplied, static_cast<int>(dims.size()),
                                         lane == dims.end() ? -1 : static_cast<int>(lane - dims.begin()), [&](int i) {
                                           return tile[static_cast<std::size_t>(dims[static_cast<std::size_t>(i)])];
                                         });
  const TileLatency one = latency.latency(d, {});
  TileCycles cycles{one.busy, 0, one.done - one.busy, -1};
  for (int dim : work.taps.looped) cycles.busy *= tile[static_cast<std::size_t>(dim)];
  return cycles;
}

ArrayGrid array_grid(const Problem& problem, const Nest& nest, const ArrayDims& dims, const Share& machine,
                     LatencyModel& latency) {
  const ArraySpec& array = machine.core.array;
  if (array.count < 2) return {};
  std::vector<std::int64_t> tile(nest.tiles.size());
  for (std::size_t d = 0; d < tile.size(); ++d) tile[d] = sub_of(problem, nest, d);
  const auto size = [&](int dim) { return tile[static_cast<std::size_t>(dim)]; };
  struct Choice {
    int dim;
    std::int64_t granule;
  };
  std::vector<Choice> choices;
  const auto add = [&](const std::vector<int>& group, std::int64_t innermost) {
    for (int dim : group)
      if (size(dim) > 1) choices.push_back({dim, dim == group.back() ? innermost : 1});
  };
  const std::int64_t row = machine.layout.tile.size() == 2 ? machine.layout.tile[0] : 1;
  add(problem.n_dims, dims.stationary_a ? 1 : array.columns);
  add(problem.m_dims, dims.stationary_a ? array.columns : row);
  add(problem.batch_dims, 1);
  ArrayGrid best, next;
  std::int64_t least = latency.latency(array_descriptor(dims, tile, best, machine), {false, true}).busy;
  const auto consider = [&] {
    const std::int64_t used = next.used();
    if (used < 2 || used > array.count) return;
    const std::int64_t busy = latency.latency(array_descriptor(dims, tile, next, machine), {false, true}).busy;
    if (busy > least || (busy == least && used >= best.used())) return;
    least = busy;
    best = next;
  };
  for (std::size_t i = 0; i < choices.size(); ++i)
    for (std::int64_t parts = 2; parts <= array.count; ++parts) {
      next.cuts.clear();
      add_cut(next.cuts, choices[i].dim, size(choices[i].dim), parts, choices[i].granule);
      if (next.cuts.empty() || next.cuts[0].parts < parts) continue;
      consider();
      for (std::size_t j = 0; j < choices.size() && parts * 2 <= array.count; ++j) {
        if (j == i) continue;
        next.cuts.resize(1);
        add_cut(next.cuts, choices[j].dim, size(choices[j].dim), array.count / parts, choices[j].granule);
        if (next.cuts.size() == 2) consider();
      }
    }
  return best;
}

/// Whether rows may be stationary while columns stream. The result then has rows along the lanes, which a layout with
/// tiles does not permit. A 2:4 operand is always stationary, because its cells select among the streamed elements.
bool either_may_stay(const Problem& problem, const Share& machine) {
  return machine.core.array.dataflow == Dataflow::weight_stationary && machine.layout.tile.empty() &&
         problem.counted_by_data < 0 && !is_two_of_four(problem.dtypes[1]) && !problem.m_dims.empty() &&
         !problem.n_dims.empty();
}

}  // namespace

ArrayDims array_dims(const Problem& problem, const Nest& nest, const Share& machine) {
  const int pack = nest.pack;
  ArrayDims dims;
  dims.batch = static_cast<int>(problem.batch_dims.size());
  dims.rows = static_cast<int>(problem.m_dims.size());
  dims.contraction = static_cast<int>(problem.k_dims.size());
  dims.columns = static_cast<int>(problem.n_dims.size());
  dims.packed = nest.unfold > 0 ? static_cast<int>(nest.unfold) : pack >= 0 ? 2 : 1;
  dims.a = problem.dtypes[0];
  dims.b = problem.dtypes[1];
  dims.order = problem.batch_dims;
  const auto add = [&](const std::vector<int>& group, int innermost) {
    for (int dim : group)
      if (dim != innermost) dims.order.push_back(dim);
    if (!group.empty()) dims.order.push_back(innermost);
  };
  add(problem.m_dims, problem.m_dims.empty() ? -1 : sublane_dim(problem, machine));
  for (int dim : problem.k_dims)
    if (dim != pack) dims.order.push_back(dim);
  if (pack >= 0) dims.order.insert(dims.order.end() - 1, pack);
  dims.order.insert(dims.order.end(), problem.n_dims.begin(), problem.n_dims.end());
  return dims;
}

VectorTaps vector_taps(const Problem& problem, const Nest& nest) {
  const auto tile = [&](int dim) { return tile_of(problem, nest, static_cast<std::size_t>(dim)); };
  std::int64_t elements = 1;
  for (const auto* dims : {&problem.batch_dims, &problem.m_dims, &problem.n_dims})
    for (int dim : *dims) elements *= tile(dim);
  VectorTaps taps;
  for (auto dim = problem.k_dims.rbegin(); dim != problem.k_dims.rend(); ++dim) {
    if (taps.looped.empty() && elements * tile(*dim) <= largest_compute) {
      elements *= tile(*dim);
      taps.summed.insert(taps.summed.begin(), *dim);
    } else if (tile(*dim) > 1) {
      taps.looped.insert(taps.looped.begin(), *dim);
    }
  }
  return taps;
}

TileWork tile_work(const Problem& problem, const Nest& nest, const Share& machine, LatencyModel& latency) {
  TileWork work;
  if (problem.on_vector) {
    work.taps = vector_taps(problem, nest);
    work.lane = lane_dim(problem, nest, machine);
    work.multiplied = multiplied_by(problem, nest, work.taps);
    return work;
  }
  work.dims = array_dims(problem, nest, machine);
  work.unfold = nest.unfold;
  work.grid = array_grid(problem, nest, work.dims, machine, latency);
  if (!either_may_stay(problem, machine)) return work;
  TileWork turned = work;
  turned.dims.stationary_a = true;
  turned.grid = array_grid(problem, nest, turned.dims, machine, latency);
  std::vector<std::int64_t> tile(nest.tiles.size());
  for (std::size_t d = 0; d < tile.size(); ++d) tile[d] = sub_of(problem, nest, d);
  const auto busy = [&](const TileWork& way) {
    return latency.latency(array_descriptor(way.dims, tile, way.grid, machine), {false, true}).busy;
  };
  return busy(turned) < busy(work) ? turned : work;
}

std::int64_t tile_busy(const Problem& problem, const TileWork& work, const std::vector<std::int64_t>& tile,
                       const Share& machine, LatencyModel& latency, bool adds) {
  if (problem.on_vector) return on_vector(problem, work, tile, latency).busy;
  Descriptor d = array_descriptor(work.dims, tile, work.grid, machine);
  d.accumulate = adds;
  return latency.latency(d, {false, true}).busy;
}

TileCycles tile_cycles(const Problem& problem, const TileWork& work, const std::vector<std::int64_t>& tile,
                       const Share& machine, LatencyModel& latency, bool adds) {
  if (problem.on_vector) return on_vector(problem, work, tile, latency);
  Descriptor d = array_descriptor(work.dims, tile, work.grid, machine);
  d.accumulate = adds;
  const TileLatency behind = latency.latency(d, {false, true});
  const ArraySpec& array = machine.core.array;
  TileCycles cycles{behind.busy, latency.latency(d, {}).busy - behind.busy, behind.done - behind.busy,
                    kept_whole(array, d) ? kept_operand(array, d.stationary_a) : -1};
  if (work.unfold > 0) {
    cycles.unfolding = latency.latency(unfolding(problem, Nest{tile, {}, {}, false, {}, 1, -1, work.unfold}), {}).done;
  }
  return cycles;
}

int lane_axis(const Problem& problem, const TileWork& work) {
  const std::vector<AxisAccess>& axes = problem.domain.results[0].axes;
  const auto last_row = static_cast<std::size_t>(std::max(0, work.dims.batch + work.dims.rows - 1));
  const int dim = problem.on_vector        ? work.lane
                  : work.dims.stationary_a ? work.dims.order[last_row]
                  : problem.n_dims.empty() ? -1
                                           : problem.n_dims.back();
  for (std::size_t axis = 0; axis < axes.size(); ++axis)
    for (const AxisAccess::Term& term : axes[axis].terms)
      if (term.dim == dim) return static_cast<int>(axis);
  return static_cast<int>(axes.size()) - 1;
}

}  // namespace tilesim::mapping
