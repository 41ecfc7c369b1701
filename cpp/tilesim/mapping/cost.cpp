#include "tilesim/mapping/cost.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/mapping/in_turn.hpp"
#include "tilesim/mapping/plan.hpp"

namespace tilesim::mapping {

std::size_t CostModel::Hash::operator()(const Extents& key) const {
  std::size_t hash = 14695981039346656037ULL;
  for (std::int64_t part : key) hash = (hash ^ static_cast<std::size_t>(part)) * 1099511628211ULL;
  return hash ^ hash >> 29;
}

CostModel::CostModel(const Problem& problem, const Share& machine)
    : problem_(problem), machine_(machine), closed_form_(machine_), latency_(closed_form_, {}, 512) {
  const DType stored = problem.outputs.empty() ? problem.memory_dtypes[2] : problem.outputs[0].dtype;
  epilogue_ = functions_in_turn(problem.dtypes[2], stored, problem.epilogue_functions);
  for (std::size_t operand = 0; operand < 2; ++operand) {
    const std::int64_t edges = edges_of(problem, operand, machine);
    prologue_[operand] = functions_in_turn(problem.dtypes[operand], problem.dtypes[operand],
                                           problem.prologue_functions[operand] - 4 * edges, edges);
  }
  require(problem.domain.extents.size() <= 20, "a product has too many dims");
  begin_at_part();
  own_ = own_dims(problem_);
  own_of_.assign(own_.begin(), own_.end());
  const auto add = [&](const auto& tensor) {
    problem_.shapes.push_back(tensor.shape);
    problem_.memory_dtypes.push_back(tensor.dtype);
    problem_.minor_to_major.push_back(tensor.minor_to_major);
    own_of_.push_back(dims_of(tensor.access));
  };
  for (const Problem::Leaf& leaf : problem_.leaves) add(leaf);
  for (const Problem::Output& output : problem_.outputs) add(output);
  strides_.resize(tensors());
  swept_.resize(tensors());
  apart_.resize(tensors());
  for (std::size_t operand = 0; operand < tensors(); ++operand) {
    const Shape& shape = problem_.shapes[operand];
    std::vector<int> order = problem_.minor_to_major[operand];
    if (order.size() != shape.size()) {
      order.clear();
      for (std::size_t axis = shape.size(); axis-- > 0;) order.push_back(static_cast<int>(axis));
    }
    problem_.minor_to_major[operand] = order;
    const Shape& tile = machine_.layout.tile;
    strides_[operand].assign(shape.size(), 0);
    std::int64_t stride = bits(problem_.memory_dtypes[operand]);
    for (std::size_t i = 0; i < order.size(); ++i) {
      const auto axis = static_cast<std::size_t>(order[i]);
      strides_[operand][axis] = stride;
      const bool padded = tile.size() == 2 && shape.size() >= 2 && i < 2;
      stride *= std::max<std::int64_t>(1, padded ? round_up(shape[axis], tile[i == 0 ? 1 : 0]) : shape[axis]);
    }
  }
  for (std::size_t d = 0; d < problem_.domain.extents.size(); ++d)
    if (problem_.domain.reduction[d]) reduced_ |= 1U << d;
  const auto hertz = static_cast<double>(machine_.core.clock.hertz);
  port_rate_ = static_cast<double>(machine_.network.port_bytes_per_cycle) *
               static_cast<double>(machine_.network.clock.hertz) / hertz;
  memory_rate_ = static_cast<double>(machine_.memory.bytes_per_second) * machine_.memory.efficiency / hertz;
  if (machine_.network.kind != "simple") memory_rate_ = std::min(memory_rate_, port_rate_);
  memory_room_ = static_cast<double>(machine_.memory.buffer_bytes * machine_.memory.channels) /
                 (memory_rate_ * static_cast<double>(problem_.cores));
  one_way_ =
      static_cast<double>(machine_.network.latency_cycles) * hertz / static_cast<double>(machine_.network.clock.hertz);
  see_regions();
  see_neighbours();
  store_wait_ = static_cast<double>(machine_.memory.latency_ps) * 1e-12 * hertz + one_way_;
  load_wait_ = store_wait_ + one_way_;
  chunk_ = std::max<std::int64_t>(16384, machine_.memory.interleave_bytes * machine_.memory.channels);
  chunk_ = std::max<std::int64_t>(1, std::min(chunk_, machine_.core.dma.outstanding_bytes));
  window_ = std::clamp<std::int64_t>(machine_.core.dma.outstanding_bytes / chunk_, 1, 64);
}

std::int64_t CostModel::trips(const Nest& nest, std::size_t dim) const {
  return ceil_div(problem_.domain.extents[dim], nest.tiles[dim]);
}

std::int64_t CostModel::pieces(const Nest& nest, std::size_t dim) const {
  return nest.sub.empty() ? 1 : ceil_div(tile_of(problem_, nest, dim), sub_of(problem_, nest, dim));
}

CostModel::Interval CostModel::interval(const Nest& nest, std::size_t dim, std::int64_t part) const {
  const std::int64_t extent = problem_.domain.extents[dim];
  if (nest.sub.empty()) {
    const std::int64_t begin = part * nest.tiles[dim];
    return {begin, std::min(extent, begin + nest.tiles[dim])};
  }
  const std::int64_t each = pieces(nest, dim), size = sub_of(problem_, nest, dim);
  const std::int64_t tile = part / each * nest.tiles[dim], begin = tile + part % each * size;
  return {begin, std::min({extent, tile + nest.tiles[dim], begin + size})};
}

/// Bytes of one region by the engine's rule: full layout tiles, or contiguous runs in full bursts.
std::int64_t CostModel::moved(std::size_t operand, const std::vector<Span>& region, std::int64_t* place) const {
  const std::vector<int>& order = problem_.minor_to_major[operand];
  const int width = bits(problem_.memory_dtypes[operand]);
  const std::size_t rank = region.size();
  std::int64_t offset = 0;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    if (region[axis].length <= 0) return 0;
    offset += region[axis].start * strides_[operand][axis];
  }
  if (place) *place = offset / 8;
  if (const Shape& tile = machine_.layout.tile; tile.size() == 2 && rank >= 2) {
    std::int64_t elements = 1;
    for (std::size_t i = 0; i < rank; ++i) {
      const Span& span = region[static_cast<std::size_t>(order[i])];
      if (i == 0)  // full rows of lanes
        elements *= ((span.start + span.length - 1) / tile[1] - span.start / tile[1] + 1) * tile[1];
      else if (i == 1 && span.to_end && span.start % tile[0] == 0)  // includes the padding
        elements *= round_up(span.length, tile[0]);
      else
        elements *= span.length;
    }
    return (elements * width + 7) / 8;
  }
  const std::int64_t burst = machine_.memory.burst_bytes;
  std::int64_t run = 1, runs = 1;
  bool contiguous = true, aligned = true;
  for (std::size_t i = 0; i < rank; ++i) {
    const auto axis = static_cast<std::size_t>(order[i]);
    if (region[axis].length == 1) continue;
    contiguous = contiguous && strides_[operand][axis] == run * width;
    if (contiguous) {
      run *= region[axis].length;
    } else {
      runs *= region[axis].length;
      aligned &= strides_[operand][axis] / 8 % burst == 0;
    }
  }
  const std::int64_t skew = aligned || runs == 1 ? offset / 8 % burst : (burst - 1) / 2;
  return runs * round_up(skew + (run * width + 7) / 8, burst);
}

/// The region of one tile along an axis, clipped to the tensor.
CostModel::Span CostModel::span(const AxisAccess& axis, std::int64_t size, std::int64_t along, const Nest& nest,
                                const Extents& index) const {
  std::int64_t low = axis.constant, high = axis.constant + axis.window - 1;
  for (const AxisAccess::Term& term : axis.terms) {
    const auto d = static_cast<std::size_t>(term.dim);
    const Interval part = interval(nest, d, index[d]);
    low += term.coefficient * (term.coefficient >= 0 ? part.begin : part.end - 1);
    high += term.coefficient * (term.coefficient >= 0 ? part.end - 1 : part.begin);
  }
  low = std::max<std::int64_t>(low, 0);
  high += along;
  return {low, std::min(high, size - 1) - low + 1, high >= size - 1};
}

std::int64_t CostModel::tile_bytes(std::size_t operand, const Nest& nest, const Extents& index, const Extents& along) {
  const std::vector<AxisAccess>& axes = access(operand).axes;
  region_.resize(axes.size());
  for (std::size_t axis = 0; axis < axes.size(); ++axis)
    region_[axis] = span(axes[axis], problem_.shapes[operand][axis], along.empty() ? 0 : along[axis], nest, index);
  return moved(operand, region_, &place_);
}

/// Bytes of all tiles of an operand, if each is loaded once.
CostModel::Sweep CostModel::sweep(std::size_t operand, const Nest& nest) {
  if (operand < 3 && !nest.sub.empty() && pieces_of(problem_, nest, operand) == 1)
    return sweep(operand, in_whole_tiles(nest));
  key_.clear();
  for (std::size_t d = 0; d < nest.tiles.size(); ++d)
    if (own_of_[operand] >> d & 1) key_.push_back(nest.tiles[d]);
  if (!nest.sub.empty())
    for (std::size_t d = 0; d < nest.tiles.size(); ++d)
      if (own_of_[operand] >> d & 1) key_.push_back(nest.sub[d]);
  const auto [entry, fresh] = swept_[operand].try_emplace(key_, Sweep{});
  if (!fresh) return entry->second;
  const std::size_t rank = access(operand).axes.size();
  const Extents along = taken_along(problem_, nest, operand);
  std::vector<const std::vector<Group>*> axes;
  for (std::size_t axis = 0; axis < rank; ++axis)
    axes.push_back(&groups(operand, axis, along.empty() ? 0 : along[axis], nest));
  std::vector<std::size_t> at(rank, 0);
  std::vector<Span> region(rank);
  Sweep total;
  while (true) {
    std::int64_t count = 1;
    for (std::size_t axis = 0; axis < rank; ++axis) {
      const Group& group = (*axes[axis])[at[axis]];
      region[axis] = group.span;
      count *= group.count;
    }
    const std::int64_t bytes = moved(operand, region);
    total.bytes += count * bytes;
    total.tiles += bytes > 0 ? count : 0;
    std::size_t i = 0;
    for (; i < rank; ++i) {
      if (++at[i] < axes[i]->size()) break;
      at[i] = 0;
    }
    if (i == rank) break;
  }
  return entry->second = total;
}

namespace {

double eighth_power(double value) {
  const double square = value * value, fourth = square * square;
  return fourth * fourth;
}

}  // namespace

/// Number of nonempty parts of all tiles along a dim.
std::int64_t CostModel::filled_parts(const Nest& nest, std::size_t dim) const {
  if (nest.sub.empty()) return trips(nest, dim);
  const std::int64_t before = trips(nest, dim) - 1, rest = problem_.domain.extents[dim] - before * nest.tiles[dim];
  return before * pieces(nest, dim) + ceil_div(rest, sub_of(problem_, nest, dim));
}

/// Bytes of a leaf, which is loaded again for each tile that reads it.
CostModel::Sweep CostModel::read_with(std::size_t leaf, const Nest& nest, std::uint64_t tiled) {
  const Sweep swept = sweep(leaf, nest);
  Sweep total{swept.bytes, 1};
  for (std::size_t d = 0; d < nest.tiles.size(); ++d) {
    if (!(tiled >> d & 1)) continue;
    const std::int64_t parts = filled_parts(nest, d);
    total.tiles *= parts;
    if (!(own_of_[leaf] >> d & 1)) total.bytes *= parts;
  }
  return total;
}

bool CostModel::reduces() const {
  return std::any_of(problem_.outputs.begin(), problem_.outputs.end(),
                     [](const Problem::Output& output) { return !output.reduced.empty(); });
}

CostModel::Sweep CostModel::stored(const Nest& nest) {
  if (problem_.outputs.empty()) return sweep(2, nest);
  Sweep total;
  for (std::size_t output = outputs(); output < tensors(); ++output) {
    const Sweep written = read_with(output, reduces() ? in_whole_tiles(nest) : nest, own_[2]);
    total.bytes += written.bytes;
    total.tiles += written.tiles;
  }
  return total;
}

std::int64_t CostModel::stored_bytes(const Nest& nest, const Extents& index) {
  if (problem_.outputs.empty()) return tile_bytes(2, nest, index);
  std::int64_t bytes = 0;
  for (std::size_t output = outputs(); output < tensors(); ++output) bytes += tile_bytes(output, nest, index);
  return bytes;
}

CostModel::Sweep CostModel::epilogue_leaves(const Nest& nest) {
  Sweep total;
  for (std::size_t leaf = 3; leaf < outputs(); ++leaf) {
    if (problem_.leaves[leaf - 3].of != 2) continue;
    const Sweep read = read_with(leaf, reduces() ? in_whole_tiles(nest) : nest, own_[2]);
    total.bytes += read.bytes;
    total.tiles += read.tiles;
  }
  return total;
}

/// Bytes of the sources of all computed tiles of an operand, if each is loaded once.
CostModel::Sweep CostModel::prologue(std::size_t operand, const Nest& nest) {
  Sweep total;
  for (std::size_t leaf = 3; leaf < outputs(); ++leaf) {
    if (problem_.leaves[leaf - 3].of != operand) continue;
    const Sweep read = read_with(leaf, in_whole_tiles(nest), own_[operand]);
    total.bytes += read.bytes;
    total.tiles += read.tiles;
  }
  return total;
}

std::int64_t CostModel::fetched_bytes(std::size_t operand, const Nest& nest, const Extents& index) {
  if (!computed(operand)) return tile_bytes(operand, nest, index);
  std::int64_t bytes = 0;
  for (std::size_t leaf = 3; leaf < outputs(); ++leaf)
    if (problem_.leaves[leaf - 3].of == operand) bytes += tile_bytes(leaf, in_whole_tiles(nest), index);
  return bytes;
}

const CostModel::Weighed& CostModel::weigh_tiles(const Nest& nest) {
  Extents key = nest.tiles;
  add_sub(nest, key);
  if (nest.pack >= 0) key.push_back(nest.pack);
  if (nest.unfold > 0) key.push_back(-nest.unfold);
  const auto [entry, fresh] = weighed_.try_emplace(std::move(key), Weighed{});
  Weighed& weighed = entry->second;
  if (!fresh) return weighed;
  const std::size_t dims = nest.tiles.size();
  Extents first(dims, 0), last(dims);
  for (std::size_t d = 0; d < dims; ++d) last[d] = parts(nest, d) - 1;
  for (std::size_t operand = 0; operand < 3; ++operand)
    weighed.swept[operand] = computed(operand) ? prologue(operand, nest)
                             : operand == 2    ? stored(nest)
                                               : sweep(operand, nest);
  weighed.leaves = epilogue_leaves(nest);
  for (std::size_t operand = 0; operand < 2; ++operand) weighed.fetched_for[operand] = fetched_for(nest, operand);
  weighed.work = work(nest);
  weighed.ends = moving(weighed.fetched_for, static_cast<double>(fetched_bytes(0, nest, first)),
                        static_cast<double>(fetched_bytes(1, nest, first)), 0) +
                 load_wait_ + moving(weighed.fetched_for, 0, 0, static_cast<double>(stored_bytes(nest, last))) +
                 store_wait_;
  return weighed;
}

Cost CostModel::price(const Nest& nest) {
  const Weighed& weighed = weigh_tiles(nest);
  Cost cost;
  double requests = 0, moved[3] = {0, 0, 0};
  const LoopPlan loops = plan_loops(problem_, nest, own_);
  const bool spans = loops.whole != 0;  // tiles are stored while others are summed
  for (std::size_t operand = 0; operand < 3; ++operand) {
    const auto [transfers, repeats] = loops.fetches(operand, own_);
    const Sweep& swept = weighed.swept[operand];
    const std::int64_t pieces = pieces_of(problem_, nest, operand);
    cost.transfers[operand] = transfers;
    cost.pieces[operand] = pieces;
    cost.bytes[operand] = repeats * swept.bytes;
    const double tiles = static_cast<double>(repeats * swept.tiles), bytes = static_cast<double>(cost.bytes[operand]);
    moved[operand] = bytes;
    const double alone =
        moving(weighed.fetched_for, operand == 0 ? bytes : 0, operand == 1 ? bytes : 0, operand == 2 ? bytes : 0);
    cost.ring[operand] = alone + tiles / static_cast<double>(pieces) * (operand < 2 ? load_wait_ : store_wait_);
    if (operand == 2) continue;
    requests += std::max(tiles, bytes / static_cast<double>(chunk_));
  }
  cost.leaf_bytes = weighed.leaves.bytes;
  const auto leaf_bytes = static_cast<double>(cost.leaf_bytes);
  cost.compute = weighed.work.busy;
  cost.epilogue = weighed.work.finishing;
  const double unfolding = unfolding_cycles(problem_, nest, machine_);
  const double loaded = moving(weighed.fetched_for, moved[0], moved[1], leaf_bytes);
  cost.memory = std::max(
      {(moved[0] / weighed.fetched_for[0] + moved[1] / weighed.fetched_for[1] + moved[2] + leaf_bytes) / memory_rate_,
       static_cast<double>(cost.total_bytes()) / port_rate_, loaded, moving(weighed.fetched_for, 0, 0, moved[2])});
  for (std::size_t i = 0; i < 2; ++i)                          // the array uses a tile's pieces while others arrive
    cost.ring[i] = computed(i)                 ? cost.compute  // sources have separate buffers
                   : i == 0 && nest.unfold > 0 ? cost.ring[i] + unfolding
                   : cost.pieces[i] == 1       ? cost.ring[i] + cost.compute
                                               : std::max(cost.ring[i], cost.compute);
  cost.ring[2] = cost.compute + (spans || cost.pieces[2] > 1       ? 0
                                 : problem_.epilogue_functions > 0 ? cost.epilogue
                                                                   : cost.ring[2]);
  const auto queues = static_cast<double>(std::min<std::int64_t>(2, machine_.core.dma.load_queues));
  const std::pair<double, const char*> flat[] = {
      {cost.compute + weighed.ends, "compute"},
      {cost.epilogue + weighed.ends, "epilogue"},
      {unfolding + load_wait_, "unfolding"},
      {cost.memory + store_wait_, "memory"},
      {(requests * load_wait_ + loaded) / static_cast<double>(window_) / queues, "latency of loads"}};
  const auto& most = *std::max_element(std::begin(flat), std::end(flat));
  cost.flat = most.first + static_cast<double>(machine_.core.kernel_launch_cycles);
  cost.flat_limit = most.second;
  for (const auto& part : flat) cost.flat_power += eighth_power(part.first);
  with_depths(cost, nest.depths);
  return cost;
}

double CostModel::bound(const Cost& cost, const std::vector<std::int64_t>& depths) const {
  double bound = cost.flat;
  for (std::size_t i = 0; i < 3; ++i) {
    if (i < 2 && cost.transfers[i] <= depths[i]) continue;
    bound = std::max(
        bound, cost.ring[i] / static_cast<double>(depths[i]) + static_cast<double>(machine_.core.kernel_launch_cycles));
  }
  return bound;
}

void CostModel::with_depths(Cost& cost, const std::vector<std::int64_t>& depths) const {
  cost.bound = cost.flat;
  cost.limit = cost.flat_limit;
  double power = cost.flat_power;
  static constexpr const char* names[3] = {"ring of a", "ring of b", "ring of the result"};
  for (std::size_t i = 0; i < 3; ++i) {
    if (i < 2 && cost.transfers[i] <= depths[i]) continue;
    const double cycles =
        cost.ring[i] / static_cast<double>(depths[i]) + static_cast<double>(machine_.core.kernel_launch_cycles);
    power += eighth_power(cycles);
    if (cycles <= cost.bound) continue;
    cost.bound = cycles;
    cost.limit = names[i];
  }
  cost.soft = std::sqrt(std::sqrt(std::sqrt(power)));
}

bool CostModel::fits(const Nest& nest) const {
  return !stores_between(problem_, nest) &&
         demand(problem_, nest, plan_loops(problem_, nest, own_), machine_).fits(machine_);
}

}  // namespace tilesim::mapping
