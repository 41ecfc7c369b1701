// Tiles of a vector kernel, one after the other: what an estimate by totals misses is that small or regularly placed
// transfers keep few channels busy, that round trips are not hidden, and that units wait for each other.
#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "tilesim/base/shape.hpp"
#include "tilesim/mapping/channels.hpp"
#include "tilesim/mapping/vector/moves.hpp"

namespace tilesim::mapping {

namespace {

constexpr int most_pieces_walked = 128;   // of tiles; the time of further ones is extended linearly
constexpr std::int64_t most_apart = 256;  // transfers of one tile
constexpr std::int64_t most_tile_bytes = INT64_MAX / 8;
using Sizes = std::vector<std::int64_t>;

class TileWalk {
 public:
  /// Of the busiest core, or of one of those that are walked together.
  TileWalk(const VectorProblem& problem, const VectorTiles& tiles, const Share& machine, const CoreTrips& own,
           std::int64_t core = -1)
      : problem_(problem),
        tiles_(tiles),
        machine_(machine),
        closed_form_(machine),
        stages_(stages_of(problem)),
        rank_(problem.space.size()),
        streamed_(streams(problem, tiles)),
        contexts_(static_cast<double>(std::max<std::int64_t>(1, tiles.contexts))),
        rings_(problem.operands.size()),
        store_(machine, true) {
    trips_ = own.trips;
    active_ = own.workers;
    number_ = static_cast<std::size_t>(std::max<std::int64_t>(0, core));
    for (std::int64_t i = 0; i < machine.core.dma.load_queues; ++i) loads_.push_back({Queue(machine, false), {}, 0});
    const std::int64_t page = 4096;
    std::int64_t next = 0;
    for (std::size_t k = 0; k < rings_.size(); ++k) {
      const VectorOperand& operand = problem.operands[k];
      Ring& ring = rings_[k];
      ring.strides = strides_of(operand);
      ring.base = next;
      const bool moves = operand.use != VectorOperand::Use::scratch;
      ring.shuffled = moves && changes_lanes(problem, operand, tiles);
      if (operand.use == VectorOperand::Use::load) {
        ring.queue = inputs_.size() % loads_.size();
        inputs_.push_back(static_cast<int>(k));
      }
      if (operand.use == VectorOperand::Use::store && !operand.held) shared_ = static_cast<int>(k);
      if (moves && !ring.strides.empty())
        next += round_up(ring.strides.back() / 8 * std::max<std::int64_t>(1, operand.extents.back()) + 1, page);
      for (std::size_t axis = 0; axis < rank_; ++axis)
        ring.pieces &= tiles.sub.empty() || tiles.sub[axis] >= tiles.tiles[axis] || operand.step[axis] > 0;
    }
    if (core < 0)
      find_part();
    else
      take_part(own, core);
    make_entries();
  }

  /// After all requests have been sent.
  double cycles() const {
    const std::size_t count = ends_.size();
    const double launch = static_cast<double>(machine_.core.kernel_launch_cycles);
    const double last = count > 0 ? *std::max_element(ends_.begin(), ends_.end()) : 0;
    if (streamed_) return launch + streamed_cycles(last);
    const double rest = std::max(0.0, total_ - static_cast<double>(count));
    if (const double whole = points_of_all(); count > 1 && points_.size() == count && rest > 0) {
      const std::size_t early = count / 8;  // where rings have filled
      const double before = std::accumulate(points_.begin(), points_.begin() + std::ptrdiff_t(early) + 1, 0.0);
      const double walked = std::accumulate(points_.begin(), points_.end(), 0.0);
      const double each = (ends_.back() - ends_[early]) / std::max(1.0, walked - before);
      return launch + last + std::max((whole - walked) * each, rest * least_cycles());
    }
    const double halfway = count > 1 ? ends_[count / 2 - 1] : 0;
    const double each = count > 1 ? (ends_.back() - halfway) / static_cast<double>(count - count / 2) : last;
    return launch + last + rest * each;
  }

  /// When the next request leaves; infinite: there is none.
  double next() {
    constexpr double never = std::numeric_limits<double>::infinity();
    for (bool more = true; more;) {
      more = cross();
      more |= compute();
    }
    loading_ = loads_.size();
    double now = never;
    for (std::size_t i = 0; i < loads_.size(); ++i)
      if (const double time = load_time(loads_[i]); time < now) now = time, loading_ = i;
    const double storing = store_time();
    if (storing == never || storing > now) return now;
    loading_ = loads_.size();  // what is there is stored before the next load leaves, as in the engine
    return storing;
  }

  /// Sends the request that `next` has found.
  void send(Channels& channels, double now) {
    if (loading_ == loads_.size()) return send_store(channels, now);
    LoadQueue& loading = loads_[loading_];
    const Transfer& head = loading.transfers[loading.next];
    if (!loading.queue.within()) loading.queue.begin(head.address, head.bytes);
    if (!loading.queue.accepted(channels, now, number_) || !loading.queue.send(channels, now, number_)) return;
    if (head.last) came(at(head.operand), head.version, loading.queue.done());
    ++loading.next;
  }

 private:
  /// An operand's buffers. Versions count the tiles that it has had.
  struct Ring {
    std::vector<std::int64_t> strides;
    std::int64_t base = 0;
    bool shuffled = false, pieces = true;
    std::size_t queue = 0;  ///< that loads it
    int versions = 0;
    std::vector<std::vector<double>> raw, ready;  ///< per version: when its pieces came, and had their lanes
    std::vector<double> freed;                    ///< per version
  };
  struct Transfer {
    int operand = 0, version = 0, piece = 0, step = 0;
    bool last = false;  ///< of its tile, or of its piece
    std::int64_t address = 0, bytes = 0;
  };
  struct LoadQueue {
    Queue queue;
    std::vector<Transfer> transfers;
    std::size_t next = 0;
  };
  struct Turn {  ///< through the cross-lane unit
    int operand = 0, version = 0;
    double busy = 0;
  };
  struct Need { int operand = 0, version = 0; };
  struct Stretch {                   ///< of a pass over a row of tiles
    std::size_t first = 0, end = 0;  ///< steps
    double skipped = 0;              ///< tiles that are not walked
  };
  struct Item {  ///< of the vector unit
    int step = 0, piece = 0;
    double busy = 0, done = 0;
    bool waits = false;         ///< what follows reads its result
    std::vector<Need> results;  ///< tiles that it writes; those that it reads: `reads_` of its step
    bool frees = false;         ///< what its step reads
  };

  /// Bytes of all operands of the tile at these numbers.
  std::int64_t tile_bytes(const Sizes& index) const {
    Sizes start(rank_), size(rank_);
    place(index, start, size);
    std::int64_t bytes = 0;
    for (std::size_t k = 0; k < rings_.size(); ++k)
      if (problem_.operands[k].use != VectorOperand::Use::scratch)
        bytes = std::min(bytes + moved(problem_.operands[k], rings_[k].strides, start, size, machine_).bytes,
                         most_tile_bytes);
    return bytes;
  }

  /// Of the parts of as many tiles, one whose first tile moves most: where bursts or rows of lanes do not end with the
  /// parts, the first part begins with one and others do not.
  void find_part() {
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
  void take_part(const CoreTrips& own, std::int64_t core) {
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
  void place(const Sizes& index, Sizes& start, Sizes& size) const {
    for (std::size_t axis = 0; axis < rank_; ++axis) {
      start[axis] = (first_[axis] + index[axis]) * tiles_.tiles[axis];
      size[axis] = std::min(tiles_.tiles[axis], std::max<std::int64_t>(1, problem_.space[axis]) - start[axis]);
    }
  }

  /// The next of the tiles along these axes, the last axis fastest; false after the last one.
  bool advance(Sizes& index, bool rows, bool all) const {
    for (std::size_t axis = rank_; axis-- > 0;) {
      if (!all && problem_.reduced[axis] != rows) continue;
      if (++index[axis] < trips_[axis]) return true;
      index[axis] = 0;
    }
    return false;
  }

  /// Tiles at ends are smaller: those of a stretch may all be, so that what is not walked is measured in points.
  void add_points(const Sizes& index) {
    Sizes start(rank_, 0), size(rank_, 1);
    place(index, start, size);
    double points = 1;
    for (std::int64_t extent : size) points *= static_cast<double>(extent);
    points_.push_back(points);
  }

  /// Of a tile however small: so many as a ring has buffers share the way to memory and back.
  double least_cycles() const {
    const auto hertz = static_cast<double>(machine_.core.clock.hertz);
    const double way = static_cast<double>(machine_.network.latency_cycles) * hertz /
                       static_cast<double>(machine_.network.clock.hertz);
    return (static_cast<double>(machine_.memory.latency_ps) * 1e-12 * hertz + 2 * way) /
           static_cast<double>(tiles_.depth);
  }

  /// Each pass takes as long for the tiles that are not walked as for the later ones of those that are; rows of tiles
  /// are alike.
  double streamed_cycles(double last) const {
    double walked = last;
    for (const Stretch& stretch : stretches_) {
      const std::size_t middle = (stretch.first + stretch.end) / 2;
      if (stretch.skipped == 0 || middle == 0 || middle >= stretch.end || stretch.end > ends_.size()) continue;
      walked +=
          stretch.skipped * (ends_[stretch.end - 1] - ends_[middle - 1]) / static_cast<double>(stretch.end - middle);
    }
    return walked * std::max(1.0, rows_ / std::max(1.0, rows_walked_));
  }

  double points_of_all() const {
    double whole = 1;
    for (std::int64_t extent : problem_.space) whole *= static_cast<double>(std::max<std::int64_t>(1, extent));
    return whole;
  }

  void make_entries() {
    double tiles = 1, columns = 1, passes = 0;
    for (std::size_t axis = 0; axis < rank_; ++axis) (problem_.reduced[axis] ? columns : tiles) *= double(trips_[axis]);
    bool after = false;
    for (const VectorStage& stage : stages_) {
      passes = std::max(passes, static_cast<double>(stage.pass));
      after |= stage.pass == 0;
    }
    total_ = tiles * columns;
    rows_ = tiles;
    Sizes index(rank_, 0);
    int pieces = 0;
    do {
      if (!streamed_) {
        if (active_ == 1) add_points(index);
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
        stretches_.push_back(stretch);
        for (std::size_t axis = 0; axis < rank_; ++axis)
          if (problem_.reduced[axis]) index[axis] = 0;
      }
      if (after) pieces += add_step(index, 0);
      ++rows_walked_;
    } while (pieces < most_pieces_walked && advance(index, false, !streamed_));
  }

  /// Starts and sizes of the tile's pieces.
  void cut(const Sizes& start, const Sizes& size, std::vector<Sizes>& starts, std::vector<Sizes>& sizes) const {
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
  int add_step(const Sizes& index, std::int64_t pass) {
    Sizes start(rank_), size(rank_);
    place(index, start, size);
    std::vector<Sizes> starts, sizes;
    cut(start, size, starts, sizes);
    const int step = steps_++;
    std::vector<Need> results;
    std::vector<bool> wanted(rings_.size(), pass < 0);
    for (const VectorStage& stage : stages_)
      if (stage.pass == pass)
        for (int k : stage.loads) wanted[static_cast<std::size_t>(k)] = true;
    std::vector<Need>& needs = reads_.emplace_back();
    for (int k : inputs_)
      if (wanted[static_cast<std::size_t>(k)]) needs.push_back({k, new_version(k)});
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
      for (int k : stage.stores) results.push_back({k, new_version(k)});
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
    if (last < stages_.size()) items_.back().frees = true;
    return static_cast<int>(starts.size());
  }

  Ring& at(int operand) { return rings_[static_cast<std::size_t>(operand)]; }

  int new_version(int operand) {
    Ring& ring = at(operand);
    ring.raw.emplace_back();
    ring.ready.emplace_back();
    return ring.versions++;
  }

  void add_load(const Need& need, int step, const Sizes& start, const Sizes& size) {
    const VectorOperand& operand = problem_.operands[static_cast<std::size_t>(need.operand)];
    const Ring& ring = at(need.operand);
    Sizes one = size;
    std::int64_t count = 1;
    for (int axis : operand.apart) {
      one[static_cast<std::size_t>(axis)] = 1;
      count = std::min(count * size[static_cast<std::size_t>(axis)],
                       most_tile_bytes / size[static_cast<std::size_t>(axis)]);
    }
    const std::int64_t walked = std::min(count, most_apart);  // of more of them, each stands for several
    const Moved move = moved(operand, ring.strides, start, one, machine_);
    for (std::int64_t i = 0; i < walked; ++i) {
      const std::int64_t bytes = (i + 1) * count / walked * move.bytes - i * count / walked * move.bytes;
      // From where is data: the engine offers them at the tensor's begin.
      const std::int64_t address = ring.base + (operand.apart.empty() ? move.address : 0);
      loads_[ring.queue].transfers.push_back({need.operand, need.version, 0, step, i + 1 == walked, address, bytes});
    }
    if (ring.shuffled) turn(need, operand, size);
  }

  void add_store(const Need& need, int step, int piece, const Sizes& start, const Sizes& size, bool last) {
    const VectorOperand& operand = problem_.operands[static_cast<std::size_t>(need.operand)];
    const Ring& ring = at(need.operand);
    const Moved move = moved(operand, ring.strides, start, size, machine_);
    stores_.push_back({need.operand, need.version, piece, step, last, ring.base + move.address, move.bytes});
    if (ring.shuffled) turn(need, operand, size);
  }

  void turn(const Need& need, const VectorOperand& operand, const Sizes& size) {
    const std::int64_t bytes = shuffled_bytes(problem_, operand, tiles_, size, machine_);
    const double busy = static_cast<double>(ceil_div(bytes, machine_.core.cross_lane.bytes_per_cycle));
    turns_.push_back({need.operand, need.version, std::max(1.0, busy)});
  }

  void add_item(const VectorStage& stage, int step, int piece, const Sizes& size, const std::vector<Need>& results) {
    Item item;
    item.step = step;
    item.piece = piece;
    if (problem_.points > 0) {
      const TileLatency latency = stage_latency(problem_, stage, tiles_.lane, size, closed_form_);
      item.busy = static_cast<double>(latency.busy) * std::min(contexts_, active_);
      item.done = item.busy + static_cast<double>(latency.done - latency.busy);
    }
    item.waits = stage.reductions > 0 && !streamed_;
    item.results = results;
    items_.push_back(std::move(item));
  }

  /// When the buffer of a version is free; below zero: not yet known.
  double free_since(const Ring& ring, int version) const {
    const int before = version - static_cast<int>(tiles_.depth);
    if (before < 0) return 0;
    return before < static_cast<int>(ring.freed.size()) ? ring.freed[static_cast<std::size_t>(before)] : -1;
  }

  /// The next compute, if what it needs is known; what was known before is not looked at again.
  bool compute() {
    if (next_item_ == items_.size()) return false;
    const Item& item = items_[next_item_];
    const std::vector<Need>& needs = reads_[static_cast<std::size_t>(item.step)];
    for (; known_ < needs.size(); ++known_) {
      const Need& need = needs[known_];
      const Ring& ring = at(need.operand);
      const auto& ready = ring.ready[static_cast<std::size_t>(need.version)];
      const std::size_t piece = ring.pieces ? static_cast<std::size_t>(item.piece) : 0;
      if (ready.size() <= piece) return false;
      came_ = std::max(came_, ready[piece]);
    }
    double now = std::max(vector_free_, came_);
    for (const Need& result : item.results) {
      const double free = free_since(at(result.operand), result.version);
      if (free < 0) return false;
      now = std::max(now, free);
    }
    vector_free_ = now + (item.waits ? item.done : item.busy);
    for (const Need& result : item.results) came(at(result.operand), result.version, now + item.done);
    if (item.frees && shared_ < 0)
      for (const Need& need : needs) at(need.operand).freed.push_back(now + item.busy);
    finished(item.step, now + item.done);
    ++next_item_;
    known_ = 0;
    came_ = 0;
    return true;
  }

  static void came(Ring& ring, int version, double now) {
    ring.raw[static_cast<std::size_t>(version)].push_back(now);
    if (!ring.shuffled) ring.ready[static_cast<std::size_t>(version)].push_back(now);
  }

  /// The next turn of the cross-lane unit.
  bool cross() {
    if (next_turn_ == turns_.size()) return false;
    const Turn& turn = turns_[next_turn_];
    Ring& ring = at(turn.operand);
    const auto version = static_cast<std::size_t>(turn.version);
    if (ring.raw[version].empty()) return false;
    cross_free_ = std::max(cross_free_, ring.raw[version].back()) + turn.busy;
    ring.ready[version].push_back(cross_free_ + static_cast<double>(machine_.core.cross_lane.latency));
    ++next_turn_;
    return true;
  }

  void finished(int step, double now) {
    const auto at = static_cast<std::size_t>(step);
    if (ends_.size() <= at) ends_.resize(at + 1, 0);
    ends_[at] = std::max(ends_[at], now);
  }

  /// When the head of a load queue, or of the store queue, may send its next request; infinite: not yet known.
  double load_time(const LoadQueue& queue) {
    constexpr double never = std::numeric_limits<double>::infinity();
    if (queue.next == queue.transfers.size()) return never;
    if (queue.queue.within()) return queue.queue.ready(0);
    const Transfer& head = queue.transfers[queue.next];
    const double free = free_since(at(shared_ < 0 ? head.operand : shared_), head.version);
    return free < 0 ? never : queue.queue.ready(free);
  }
  double store_time() {
    constexpr double never = std::numeric_limits<double>::infinity();
    if (next_store_ == stores_.size()) return never;
    if (store_.within()) return store_.ready(0);
    const Transfer& head = stores_[next_store_];
    const auto& ready = at(head.operand).ready[static_cast<std::size_t>(head.version)];
    const auto piece = static_cast<std::size_t>(head.piece);
    return ready.size() <= piece ? never : store_.ready(ready[piece]);
  }

  void send_store(Channels& channels, double now) {
    const Transfer& head = stores_[next_store_];
    if (!store_.within()) store_.begin(head.address, head.bytes);
    if (!store_.accepted(channels, now, number_) || !store_.send(channels, now, number_)) return;
    if (head.last) at(head.operand).freed.push_back(store_.done());
    finished(head.step, store_.done());
    ++next_store_;
  }

  const VectorProblem& problem_;
  const VectorTiles& tiles_;
  const Share& machine_;
  ClosedForm closed_form_;
  std::vector<VectorStage> stages_;
  std::size_t rank_;
  bool streamed_;
  double contexts_;  ///< of a core, that take turns on its units
  std::vector<Ring> rings_;
  std::vector<int> inputs_;
  int shared_ = -1;                ///< the result whose buffers are those that are loaded; -1: none
  Sizes trips_, first_;            ///< of the part that is walked: tiles, and where they begin
  std::size_t number_ = 0;         ///< of the core, on the memory
  std::size_t loading_ = 0;        ///< queue of the next request; past the last one: a store
  double active_ = 1, total_ = 1;  ///< cores (of contexts) at work; steps of the busiest
  int steps_ = 0;
  std::vector<LoadQueue> loads_;
  Queue store_;
  std::vector<Transfer> stores_;
  std::vector<Turn> turns_;
  std::vector<Item> items_;
  std::vector<std::vector<Need>> reads_;  ///< per step
  std::size_t next_store_ = 0, next_turn_ = 0, next_item_ = 0;
  std::size_t known_ = 0;  ///< of what the next item needs, so many have come, the last of them at `came_`
  double came_ = 0;
  double vector_free_ = 0, cross_free_ = 0;
  std::vector<Stretch> stretches_;
  double rows_ = 1, rows_walked_ = 0;  ///< of tiles that stream by
  std::vector<double> points_;         ///< per step of tiles that are not streamed, on one core
  std::vector<double> ends_;           ///< per step: when its last compute or store is over
};

}  // namespace

double walked_cycles(const VectorProblem& problem, const VectorTiles& tiles, const Share& machine) {
  constexpr double never = std::numeric_limits<double>::infinity();
  constexpr std::int64_t most_together = 64;
  const CoreTrips own = busiest_trips(problem, tiles, machine.core.count);
  const auto workers = static_cast<std::int64_t>(own.workers);
  const auto contexts = static_cast<double>(std::max<std::int64_t>(1, tiles.contexts));
  const bool together = tiles.contexts <= 1 && workers > 1 && workers <= most_together;
  std::vector<TileWalk> walks;
  const std::int64_t walked = together ? workers : 1;
  walks.reserve(static_cast<std::size_t>(walked));
  for (std::int64_t core = 0; core < walked; ++core)
    walks.emplace_back(problem, tiles, machine, own, together ? core : -1);
  Channels channels(machine, own.workers, std::min(contexts, own.workers), walks.size());
  std::vector<double> times;
  for (TileWalk& walk : walks) times.push_back(walk.next());
  while (true) {
    const auto first = std::min_element(times.begin(), times.end());
    if (*first == never) break;
    TileWalk& walk = walks[static_cast<std::size_t>(first - times.begin())];
    walk.send(channels, *first);
    *first = walk.next();
  }
  double last = 0;
  for (const TileWalk& walk : walks) last = std::max(last, walk.cycles());
  return last;
}

}  // namespace tilesim::mapping
