#include "tilesim/mapping/vector/tile_list.hpp"

#include <algorithm>
#include <utility>

#include "tilesim/base/shape.hpp"

namespace tilesim::mapping {

namespace {

constexpr int most_pieces_walked = 128;   // of tiles; the time of further ones is extended linearly
constexpr std::int64_t most_apart = 256;  // transfers of one tile
constexpr std::int64_t most_tile_bytes = INT64_MAX / 8;

}  // namespace

TileList::TileList(const VectorProblem& problem, const VectorTiles& tiles, const Machine& machine, const CoreTrips& own,
                   std::int64_t core)
    : streamed(streams(problem, tiles)),
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
      trips_(own.trips) {
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
    ring.base = next;
    const bool moves = operand.use != VectorOperand::Use::scratch;
    ring.shuffled = moves && changes_lanes(problem_, operand, tiles_);
    if (operand.use == VectorOperand::Use::load) {
      ring.queue = inputs_.size() % loads.size();
      inputs_.push_back(static_cast<int>(k));
    }
    if (operand.use == VectorOperand::Use::store && !operand.held) shared = static_cast<int>(k);
    if (moves && !ring.strides.empty())
      next += round_up(ring.strides.back() / 8 * std::max<std::int64_t>(1, operand.extents.back()) + 1, page);
    for (std::size_t axis = 0; axis < rank_; ++axis)
      ring.pieces &= tiles_.sub.empty() || tiles_.sub[axis] >= tiles_.tiles[axis] || operand.step[axis] > 0;
  }
}

/// Bytes of all operands of the tile at these numbers.
std::int64_t TileList::tile_bytes(const Sizes& index) const {
  Sizes start(rank_), size(rank_);
  place(index, start, size);
  std::int64_t bytes = 0;
  for (std::size_t k = 0; k < rings.size(); ++k)
    if (problem_.operands[k].use != VectorOperand::Use::scratch)
      bytes =
          std::min(bytes + moved(problem_.operands[k], rings[k].strides, start, size, machine_).bytes, most_tile_bytes);
  return bytes;
}

/// Of the parts of as many tiles, one whose first tile moves most: where bursts or rows of lanes do not end with the
/// parts, the first part begins with one and others do not.
void TileList::find_part() {
  first_.assign(rank_, 0);
  const Sizes none(rank_, 0);
  for (std::size_t axis = 0; axis < rank_; ++axis) {
    const std::int64_t all = ceil_div(std::max<std::int64_t>(1, problem_.space[axis]), tiles_.tiles[axis]);
    for (const std::int64_t begin : {trips_[axis], all - trips_[axis]}) {
      if (begin <= first_[axis] || begin + trips_[axis] > all) continue;
      const std::int64_t before = tile_bytes(none), other = std::exchange(first_[axis], begin);
      if (tile_bytes(none) <= before) first_[axis] = other;
    }
  }
}

/// Consecutive tiles of each axis, as loops are divided.
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

/// The tile's start and size at these numbers of tiles.
void TileList::place(const Sizes& index, Sizes& start, Sizes& size) const {
  for (std::size_t axis = 0; axis < rank_; ++axis) {
    start[axis] = (first_[axis] + index[axis]) * tiles_.tiles[axis];
    size[axis] = std::min(tiles_.tiles[axis], std::max<std::int64_t>(1, problem_.space[axis]) - start[axis]);
  }
}

/// The next of the tiles along these axes, the last axis fastest; false after the last one.
bool TileList::advance(Sizes& index, bool of_rows, bool all) const {
  for (std::size_t axis = rank_; axis-- > 0;) {
    if (!all && problem_.reduced[axis] != of_rows) continue;
    if (++index[axis] < trips_[axis]) return true;
    index[axis] = 0;
  }
  return false;
}

/// Tiles at ends are smaller: those of a stretch may all be, so that what is not walked is measured in points.
void TileList::add_points(const Sizes& index) {
  Sizes start(rank_, 0), size(rank_, 1);
  place(index, start, size);
  double count = 1;
  for (std::int64_t extent : size) count *= static_cast<double>(extent);
  points.push_back(count);
}

double TileList::points_of_all() const {
  double whole = 1;
  for (std::int64_t extent : problem_.space) whole *= static_cast<double>(std::max<std::int64_t>(1, extent));
  return whole;
}

void TileList::make_entries() {
  double tiles = 1, columns = 1, passes = 0;
  for (std::size_t axis = 0; axis < rank_; ++axis) (problem_.reduced[axis] ? columns : tiles) *= double(trips_[axis]);
  bool after = false;
  for (const VectorStage& stage : stages_) {
    passes = std::max(passes, static_cast<double>(stage.pass));
    after |= stage.pass == 0;
  }
  total = tiles * columns;
  rows = tiles;
  Sizes index(rank_, 0);
  int pieces = 0;
  do {
    if (!streamed) {
      if (active == 1) add_points(index);
      pieces += add_step(index, -1);
      continue;
    }
    const double most = std::max(8.0, most_pieces_walked / std::max(1.0, passes));
    for (std::int64_t pass = 1; pass <= static_cast<std::int64_t>(passes); ++pass) {
      Stretch stretch{static_cast<std::size_t>(steps_), 0, std::max(0.0, columns - most)};
      double column = 0;
      do pieces += add_step(index, pass);
      while (++column < most && advance(index, true, false));
      stretch.end = static_cast<std::size_t>(steps_);
      stretches.push_back(stretch);
      for (std::size_t axis = 0; axis < rank_; ++axis)
        if (problem_.reduced[axis]) index[axis] = 0;
    }
    if (after) pieces += add_step(index, 0);
    ++rows_walked;
  } while (pieces < most_pieces_walked && advance(index, false, !streamed));
}

/// Starts and sizes of the tile's pieces.
void TileList::cut(const Sizes& start, const Sizes& size, std::vector<Sizes>& starts, std::vector<Sizes>& sizes) const {
  starts = {start};
  sizes = {size};
  if (tiles_.sub.empty()) return;
  for (std::size_t axis = 0; axis < rank_; ++axis) {
    if (tiles_.sub[axis] >= size[axis]) continue;
    std::vector<Sizes> cut_starts, cut_sizes;
    for (std::size_t i = 0; i < starts.size(); ++i)
      for (std::int64_t at = 0; at < size[axis]; at += tiles_.sub[axis]) {
        cut_starts.push_back(starts[i]);
        cut_starts.back()[axis] += at;
        cut_sizes.push_back(sizes[i]);
        cut_sizes.back()[axis] = std::min(tiles_.sub[axis], size[axis] - at);
      }
    starts = std::move(cut_starts);
    sizes = std::move(cut_sizes);
  }
}

/// A tile of a pass (-1: of the only one): its transfers and computes. Returns how many pieces it has.
int TileList::add_step(const Sizes& index, std::int64_t pass) {
  Sizes start(rank_), size(rank_);
  place(index, start, size);
  std::vector<Sizes> starts, sizes;
  cut(start, size, starts, sizes);
  const int step = steps_++;
  std::vector<Need> results;
  std::vector<bool> wanted(rings.size(), pass < 0);
  for (const VectorStage& stage : stages_)
    if (stage.pass == pass)
      for (int k : stage.loads) wanted[static_cast<std::size_t>(k)] = true;
  std::vector<Need>& needs = reads.emplace_back();
  for (int k : inputs_)
    if (wanted[static_cast<std::size_t>(k)]) needs.push_back({k, at(k).versions++});
  for (const bool whole : {true, false})
    for (std::size_t piece = 0; piece < (whole ? 1 : starts.size()); ++piece)
      for (const Need& need : needs)
        if (starts.size() == 1 ? whole : at(need.operand).pieces != whole)
          add_load(need, step, whole ? start : starts[piece], whole ? size : sizes[piece]);
  std::size_t last = stages_.size();
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    const VectorStage& stage = stages_[s];
    if (pass >= 0 && stage.pass != pass) continue;
    results.clear();
    for (int k : stage.stores) results.push_back({k, at(k).versions++});
    const std::size_t pieces = stage.points ? 1 : starts.size();
    for (std::size_t piece = 0; piece < pieces; ++piece) {
      const Sizes& from = stage.points ? start : starts[piece];
      const Sizes& extent = stage.points ? size : sizes[piece];
      add_item(stage, step, static_cast<int>(piece), extent, results);
      for (const Need& result : results)
        add_store(result, step, static_cast<int>(piece), from, extent, piece + 1 == pieces);
    }
    last = s;
  }
  if (last < stages_.size()) items.back().frees = true;
  return static_cast<int>(starts.size());
}

void TileList::add_load(const Need& need, int step, const Sizes& start, const Sizes& size) {
  const VectorOperand& operand = problem_.operands[static_cast<std::size_t>(need.operand)];
  const Ring& ring = at(need.operand);
  Sizes one = size;
  std::int64_t count = 1;
  for (int axis : operand.apart) {
    one[static_cast<std::size_t>(axis)] = 1;
    count =
        std::min(count * size[static_cast<std::size_t>(axis)], most_tile_bytes / size[static_cast<std::size_t>(axis)]);
  }
  const std::int64_t walked = std::min(count, most_apart);  // of more of them, each stands for several
  const Moved move = moved(operand, ring.strides, start, one, machine_);
  for (std::int64_t i = 0; i < walked; ++i) {
    const std::int64_t bytes = (i + 1) * count / walked * move.bytes - i * count / walked * move.bytes;
    // From where is data: the engine offers them at the tensor's begin.
    const std::int64_t address = ring.base + (operand.apart.empty() ? move.address : 0);
    loads[ring.queue].push_back({need.operand, need.version, 0, step, i + 1 == walked, address, bytes});
  }
  if (ring.shuffled) turn(need, operand, size);
}

void TileList::add_store(const Need& need, int step, int piece, const Sizes& start, const Sizes& size, bool last) {
  const VectorOperand& operand = problem_.operands[static_cast<std::size_t>(need.operand)];
  const Ring& ring = at(need.operand);
  const Moved move = moved(operand, ring.strides, start, size, machine_);
  stores.push_back({need.operand, need.version, piece, step, last, ring.base + move.address, move.bytes});
  if (ring.shuffled) turn(need, operand, size);
}

void TileList::turn(const Need& need, const VectorOperand& operand, const Sizes& size) {
  const std::int64_t bytes = shuffled_bytes(problem_, operand, tiles_, size, machine_);
  const double busy = static_cast<double>(ceil_div(bytes, machine_.core.cross_lane.bytes_per_cycle));
  turns.push_back({need.operand, need.version, std::max(1.0, busy)});
}

void TileList::add_item(const VectorStage& stage, int step, int piece, const Sizes& size,
                        const std::vector<Need>& results) {
  Item item;
  item.step = step;
  item.piece = piece;
  if (problem_.points > 0) {
    const TileLatency latency = stage_latency(problem_, stage, tiles_.lane, size, closed_form_);
    item.busy = static_cast<double>(latency.busy) * std::min(contexts_, active);
    item.done = item.busy + static_cast<double>(latency.done - latency.busy);
  }
  item.waits = stage.reductions > 0 && !streamed;
  item.results = results;
  items.push_back(std::move(item));
}

}  // namespace tilesim::mapping
