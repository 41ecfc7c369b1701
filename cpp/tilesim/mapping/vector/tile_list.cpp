#include "tilesim/mapping/vector/tile_list.hpp"

#include <algorithm>
#include <utility>

#include "tilesim/base/shape.hpp"

namespace tilesim::mapping {

namespace {

constexpr int most_pieces_walked = 128;   // limit on walked pieces; the time of others is extrapolated
constexpr std::int64_t most_apart = 256;  // limit on transfers of one tile
constexpr std::int64_t most_tile_bytes = INT64_MAX / 8;

}  // namespace

TileList::TileList(const VectorProblem& problem, const VectorTiles& tiles, const Share& machine, const CoreTrips& own,
                   std::int64_t core)
    : plan(mapping::plan(problem, tiles, machine)),
      streamed(plan.streamed || !plan.parts.empty()),
      rings(problem.operands.size()),
      active(own.workers),
      loads(static_cast<std::size_t>(machine.core.dma.load_queues)),
      problem_(problem),
      tiles_(tiles),
      machine_(machine),
      closed_form_(machine),
      stages_(stages_of(problem)),
      rank_(problem.space.size()),
      contexts_(static_cast<double>(std::max<std::int64_t>(1, tiles.contexts))),
      trips_(own.trips),
      index_(rank_, 0),
      part_(problem.taps.size(), 0) {
  make_rings();
  if (core < 0)
    find_part();
  else
    take_part(own, core);
  make_entries();
}

void TileList::make_rings() {
  const std::int64_t page = 4096;
  std::int64_t next = 0;
  for (std::size_t k = 0; k < rings.size(); ++k) {
    const VectorOperand& operand = problem_.operands[k];
    Ring& ring = rings[k];
    ring.strides = strides_of(operand);
    if (!operand.access.empty()) ring.map.emplace(problem_, operand, machine_);
    ring.base = next;
    ring.pieces = plan.buffers[k].in_pieces;
    const bool moves = operand.use != VectorOperand::Use::scratch;
    if (operand.use == VectorOperand::Use::store && !operand.held) shared = static_cast<int>(k);
    if (moves && !ring.strides.empty())
      next += round_up(ring.strides.back() / 8 * std::max<std::int64_t>(1, operand.extents.back()) + 1, page);
  }
}

Moved TileList::moved_by(std::size_t operand, const TileBox& place) const {
  const Ring& ring = rings[operand];
  if (ring.map) return ring.map->moved(place, taps_);
  Sizes start, size;
  for (const Stretch& along : place) {
    start.push_back(along.start);
    size.push_back(along.size);
  }
  return moved(problem_.operands[operand], ring.strides, start, size, machine_);
}

/// Bytes of all operands of the current tile.
std::int64_t TileList::tile_bytes() const {
  const TileBox tile = place();
  std::int64_t bytes = 0;
  for (std::size_t k = 0; k < rings.size(); ++k)
    if (problem_.operands[k].use != VectorOperand::Use::scratch)
      bytes = std::min(bytes + moved_by(k, tile).bytes, most_tile_bytes);
  return bytes;
}

/// Of the parts with the most tiles, selects one whose first tile moves the most bytes: if bursts or rows of lanes
/// cross parts, only the first part is aligned.
void TileList::find_part() {
  first_.assign(rank_, 0);
  for (std::size_t axis = 0; axis < rank_; ++axis) {
    const std::int64_t all = ceil_div(std::max<std::int64_t>(1, problem_.space[axis]), tiles_.tiles[axis]);
    for (const std::int64_t begin : {trips_[axis], all - trips_[axis]}) {
      if (begin <= first_[axis] || begin + trips_[axis] > all) continue;
      const std::int64_t before = tile_bytes(), other = std::exchange(first_[axis], begin);
      if (tile_bytes() <= before) first_[axis] = other;
    }
  }
}

/// Selects the core's consecutive tiles on each axis, as the compiler splits the loops.
void TileList::take_part(const CoreTrips& own, std::int64_t core) {
  first_.assign(rank_, 0);
  for (std::size_t axis = rank_; axis-- > 0;) {
    const std::int64_t parts = own.parts[axis], digit = core % parts;
    core /= parts;
    const std::int64_t all = ceil_div(std::max<std::int64_t>(1, problem_.space[axis]), tiles_.tiles[axis]);
    first_[axis] = digit * all / parts;
    trips_[axis] = (digit + 1) * all / parts - first_[axis];
  }
}

TileList::TileBox TileList::place() const {
  TileBox tile(rank_);
  for (std::size_t axis = 0; axis < rank_; ++axis) {
    const std::int64_t extent = std::max<std::int64_t>(1, problem_.space[axis]);
    const bool back = problem_.backward && problem_.scanned == static_cast<int>(axis);
    const std::int64_t number = back ? trips_[axis] - 1 - index_[axis] : first_[axis] + index_[axis];
    tile[axis].start = number * tiles_.tiles[axis];
    tile[axis].size = std::min(tiles_.tiles[axis], extent - tile[axis].start);
  }
  return tile;
}

/// Advances the loops, the last one fastest; returns false after the last trip.
bool TileList::advance(const std::vector<VectorPlan::Loop>& loops, Sizes& index, const Sizes& trips) const {
  for (std::size_t i = loops.size(); i-- > 0;) {
    const auto axis = static_cast<std::size_t>(loops[i].axis);
    if (++index[axis] < (trips.empty() ? loops[i].trips : trips[axis])) return true;
    index[axis] = 0;
  }
  return false;
}

/// Adds the points of the current tile. Tiles at the ends are smaller, so work that is not walked is measured in
/// points.
void TileList::add_points() {
  double count = 1;
  for (const Stretch& along : place()) count *= static_cast<double>(along.size);
  points.push_back(count);
}

double TileList::points_of_all() const {
  double whole = 1;
  for (std::int64_t extent : problem_.space) whole *= static_cast<double>(std::max<std::int64_t>(1, extent));
  return whole;
}

void TileList::make_entries() {
  double tiles = 1, columns = 1;
  for (std::size_t axis = 0; axis < rank_; ++axis) (problem_.reduced[axis] ? columns : tiles) *= double(trips_[axis]);
  for (const VectorPlan::Loop& loop : plan.parts) columns *= static_cast<double>(loop.trips);
  total = tiles * columns;
  rows = tiles;
  do {
    if (streamed) {
      add_row();
    } else {
      if (active == 1) add_points();
      for (const VectorPhase& phase : plan.phases) add_step(phase);
    }
  } while (pieces_ < most_pieces_walked && advance(plan.rows, index_, trips_));
}

/// Advances to the next tile of a row, or part of a window; returns false after the last one.
bool TileList::next_column() {
  const bool more = advance(plan.parts, part_, {}) || advance(plan.columns, index_, trips_);
  for (const VectorPlan::Loop& loop : plan.parts) {
    const auto axis = static_cast<std::size_t>(loop.axis);
    taps_[axis].start = part_[axis] * loop.tile;
    taps_[axis].size = std::min(loop.tile, problem_.taps[axis] - taps_[axis].start);
  }
  return more;
}

void TileList::add_row() {
  const double columns = total / rows;
  const auto streaming = static_cast<double>(
      std::count_if(plan.phases.begin(), plan.phases.end(), [](const VectorPhase& phase) { return phase.streams; }));
  const double most = std::max(8.0, most_pieces_walked / std::max(1.0, streaming));
  for (const VectorPhase& phase : plan.phases) {
    if (!phase.streams) {
      add_step(phase);
      continue;
    }
    for (std::size_t axis = 0; axis < problem_.taps.size() && !plan.parts.empty(); ++axis)
      taps_.push_back({0, problem_.tap_tiles[axis]});
    Pass pass{static_cast<std::size_t>(steps_), 0, std::max(0.0, columns - most)};
    double column = 0;
    do add_step(phase);
    while (++column < most && next_column());
    pass.end = static_cast<std::size_t>(steps_);
    passes.push_back(pass);
    for (const VectorPlan::Loop& loop : plan.columns) index_[static_cast<std::size_t>(loop.axis)] = 0;
    part_.assign(part_.size(), 0);
    taps_.clear();
  }
  ++rows_walked;
}

/// Splits the tile into its pieces.
std::vector<TileList::TileBox> TileList::cut(const TileBox& tile) const {
  std::vector<TileBox> pieces{tile};
  for (std::size_t axis = 0; axis < tiles_.sub.size(); ++axis) {
    if (tiles_.sub[axis] >= tile[axis].size) continue;
    std::vector<TileBox> smaller;
    for (const TileBox& piece : pieces)
      for (std::int64_t at = 0; at < tile[axis].size; at += tiles_.sub[axis]) {
        smaller.push_back(piece);
        smaller.back()[axis].start += at;
        smaller.back()[axis].size = std::min(tiles_.sub[axis], tile[axis].size - at);
      }
    pieces = std::move(smaller);
  }
  return pieces;
}

/// Adds the transfers and computes of a phase for the current tile: operands without pieces first, then the others
/// piece by piece.
void TileList::add_step(const VectorPhase& phase) {
  const TileBox tile = place();
  const std::vector<TileBox> pieces = cut(tile);
  const int step = steps_++;
  pieces_ += static_cast<int>(pieces.size());
  std::vector<Need>& needs = reads.emplace_back();
  for (int k : phase.loads) needs.push_back({k, at(k).versions++});
  for (const Need& need : needs)
    if (pieces.size() == 1 || !at(need.operand).pieces) add_load(need, step, tile);
  for (const TileBox& piece : pieces)
    for (const Need& need : needs)
      if (pieces.size() > 1 && at(need.operand).pieces) add_load(need, step, piece);
  std::vector<Need> results;
  for (int s : phase.stages) {
    const VectorStage& stage = stages_[static_cast<std::size_t>(s)];
    results.clear();
    for (int k : stage.stores) results.push_back({k, at(k).versions++});
    const std::size_t count = stage.points ? 1 : pieces.size();
    for (std::size_t piece = 0; piece < count; ++piece) {
      const TileBox& here = stage.points ? tile : pieces[piece];
      add_item(stage, step, static_cast<int>(piece), here, results);
      for (const Need& result : results) add_store(result, step, static_cast<int>(piece), here, piece + 1 == count);
    }
  }
  if (!phase.stages.empty()) items.back().frees = true;
}

void TileList::add_load(const Need& need, int step, const TileBox& place) {
  const VectorOperand& operand = problem_.operands[static_cast<std::size_t>(need.operand)];
  const Ring& ring = at(need.operand);
  TileBox one = place;
  std::int64_t count = 1;
  for (int axis : operand.apart) {
    const std::int64_t size = std::exchange(one[static_cast<std::size_t>(axis)].size, 1);
    count = std::min(count * size, most_tile_bytes / size);
  }
  const std::int64_t walked = std::min(count, most_apart);  // above the limit, a walked transfer represents several
  const Moved move = moved_by(static_cast<std::size_t>(need.operand), one);
  std::vector<Transfer>& queue = loads[plan.buffers[static_cast<std::size_t>(need.operand)].queue];
  for (std::int64_t i = 0; i < walked; ++i) {
    const std::int64_t bytes = (i + 1) * count / walked * move.bytes - i * count / walked * move.bytes;
    // As in the engine, a data-dependent address counts as the tensor's start.
    const std::int64_t address = ring.base + (operand.apart.empty() ? move.address : 0);
    queue.push_back({need.operand, need.version, 0, step, i + 1 == walked, address, bytes});
  }
  if (turned(need.operand)) turn(need, place);
}

void TileList::add_store(const Need& need, int step, int piece, const TileBox& place, bool last) {
  const Moved move = moved_by(static_cast<std::size_t>(need.operand), place);
  stores.push_back({need.operand, need.version, piece, step, last, at(need.operand).base + move.address, move.bytes});
  if (turned(need.operand)) turn(need, place);
}

void TileList::turn(const Need& need, const TileBox& place) {
  Sizes size;
  for (const Stretch& along : place) size.push_back(along.size);
  const VectorOperand& operand = problem_.operands[static_cast<std::size_t>(need.operand)];
  const auto [latency, fresh] = latencies_.try_emplace({&operand, size});
  if (fresh) latency->second = turning(problem_, operand, tiles_, size, machine_);
  turns.push_back({need.operand, need.version, std::max(1.0, static_cast<double>(latency->second.busy))});
}

void TileList::add_item(const VectorStage& stage, int step, int piece, const TileBox& place,
                        const std::vector<Need>& results) {
  Item item;
  item.step = step;
  item.piece = piece;
  if (problem_.points > 0) {
    Sizes size;
    Shape taps;
    bool first = true;
    for (std::size_t axis = 0; axis < rank_; ++axis) {
      size.push_back(place[axis].size);
      if (problem_.reduced[axis] || problem_.scanned == static_cast<int>(axis)) first &= index_[axis] == 0;
    }
    for (const Stretch& along : taps_) taps.push_back(along.size);
    for (const std::int64_t part : part_) first &= part == 0;
    Sizes key = size;
    key.insert(key.end(), taps.begin(), taps.end());
    key.push_back(first);
    const auto [found, fresh] = latencies_.try_emplace({&stage, std::move(key)});
    if (fresh) found->second = stage_latency(problem_, stage, tiles_, size, taps, first, closed_form_);
    const TileLatency& latency = found->second;
    item.busy = static_cast<double>(latency.busy) * std::min(contexts_, active);
    item.done = item.busy + static_cast<double>(latency.done - latency.busy);
  }
  const bool ordered = stage.kind == ComputeKind::sort && stages_.size() > 1;  // the next stage reads positions
  item.waits =
      (stage.reductions > 0 && !streamed && !plan.carries) || ordered || (stage.line >= 0 && stage.stores.empty());
  item.results = results;
  items.push_back(std::move(item));
}

}  // namespace tilesim::mapping
