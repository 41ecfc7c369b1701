// Walks the tiles of a vector kernel in order. Totals miss three effects: small or regularly placed transfers use few
// channels at a time, round trips are exposed, and units wait for each other.
#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "tilesim/base/shape.hpp"
#include "tilesim/mapping/channels.hpp"
#include "tilesim/mapping/vector/tile_list.hpp"

namespace tilesim::mapping {

namespace {

class TileWalk {
 public:
  TileWalk(TileList list, const VectorProblem& problem, const VectorTiles& tiles, const Share& machine,
           std::int64_t core)
      : list_(std::move(list)),
        problem_(problem),
        tiles_(tiles),
        machine_(machine),
        number_(static_cast<std::size_t>(std::max<std::int64_t>(0, core))),
        store_(machine, true) {
    for (std::size_t i = 0; i < list_.loads.size(); ++i) loads_.push_back({Queue(machine, false), i, 0});
    for (std::size_t k = 0; k < list_.rings.size(); ++k) {
      Ring& own = rings_.emplace_back();
      own.raw.resize(static_cast<std::size_t>(list_.rings[k].versions));
      own.ready.resize(own.raw.size());
      own.shuffled = list_.plan.buffers[k].turned;
      own.pieces = list_.rings[k].pieces;
    }
  }

  /// Cycles of the kernel. Call it after all requests have been sent.
  double cycles() const {
    const std::size_t count = ends_.size();
    const double launch = static_cast<double>(machine_.core.kernel_launch_cycles);
    const double last = count > 0 ? *std::max_element(ends_.begin(), ends_.end()) : 0;
    if (list_.streamed) return launch + streamed_cycles(last);
    const double rest = std::max(0.0, list_.total - static_cast<double>(count));
    if (const double whole = list_.points_of_all(); count > 1 && list_.points.size() == count && rest > 0) {
      const std::size_t early = count / 8;  // after the rings have filled
      const double before =
          std::accumulate(list_.points.begin(), list_.points.begin() + std::ptrdiff_t(early) + 1, 0.0);
      const double walked = std::accumulate(list_.points.begin(), list_.points.end(), 0.0);
      const double each = (ends_.back() - ends_[early]) / std::max(1.0, walked - before);
      return launch + last + std::max((whole - walked) * each, rest * least_cycles());
    }
    const double halfway = count > 1 ? ends_[count / 2 - 1] : 0;
    const double each = count > 1 ? (ends_.back() - halfway) / static_cast<double>(count - count / 2) : last;
    return launch + last + rest * each;
  }

  /// Time of the next request; infinite if none is left.
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
    loading_ = loads_.size();  // as in the engine, a ready store precedes the next load
    return storing;
  }

  /// Sends the request that `next` found.
  void send(Channels& channels, double now) {
    if (loading_ == loads_.size()) return send_store(channels, now);
    LoadQueue& loading = loads_[loading_];
    const Transfer& head = list_.loads[loading.number][loading.next];
    if (!loading.queue.within()) loading.queue.begin(head.address, head.bytes);
    if (!loading.queue.accepted(channels, now, number_) || !loading.queue.send(channels, now, number_)) return;
    if (head.last) came(at(head.operand), head.version, loading.queue.done());
    ++loading.next;
  }

 private:
  using Transfer = TileList::Transfer;
  using Need = TileList::Need;
  struct Ring {
    std::vector<std::vector<double>> raw, ready;  ///< per version and piece: time of arrival; time after the permute
    std::vector<double> freed;                    ///< time per version
    bool shuffled = false, pieces = true;
  };
  struct LoadQueue {
    Queue queue;
    std::size_t number = 0, next = 0;
  };

  /// Least cycles per tile of any size, because the buffers of a ring share one round trip.
  double least_cycles() const {
    const auto hertz = static_cast<double>(machine_.core.clock.hertz);
    const double way = static_cast<double>(machine_.network.latency_cycles) * hertz /
                       static_cast<double>(machine_.network.clock.hertz);
    return (static_cast<double>(machine_.memory.latency_ps) * 1e-12 * hertz + 2 * way) /
           static_cast<double>(tiles_.depth);
  }

  /// Extrapolates tiles that are not walked: each pass from its later walked tiles, and all rows from the walked rows.
  double streamed_cycles(double last) const {
    double walked = last;
    for (const TileList::Pass& pass : list_.passes) {
      const std::size_t middle = (pass.first + pass.end) / 2;
      if (pass.skipped == 0 || middle == 0 || middle >= pass.end || pass.end > ends_.size()) continue;
      walked += pass.skipped * (ends_[pass.end - 1] - ends_[middle - 1]) / static_cast<double>(pass.end - middle);
    }
    return walked * std::max(1.0, list_.rows / std::max(1.0, list_.rows_walked));
  }

  Ring& at(int operand) { return rings_[static_cast<std::size_t>(operand)]; }

  /// Time at which the buffer of a version is free; negative: not known yet.
  double free_since(const Ring& ring, int version) const {
    const int before = version - static_cast<int>(tiles_.depth);
    if (before < 0) return 0;
    return before < static_cast<int>(ring.freed.size()) ? ring.freed[static_cast<std::size_t>(before)] : -1;
  }

  /// Runs the next compute if its inputs have times. Inputs that had times before are not checked again.
  bool compute() {
    if (next_item_ == list_.items.size()) return false;
    const TileList::Item& item = list_.items[next_item_];
    const std::vector<Need>& needs = list_.reads[static_cast<std::size_t>(item.step)];
    for (; arrived_ < needs.size(); ++arrived_) {
      const Need& need = needs[arrived_];
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
    if (item.frees && list_.shared < 0)
      for (const Need& need : needs) at(need.operand).freed.push_back(now + item.busy);
    finished(item.step, now + item.done);
    ++next_item_;
    arrived_ = 0;
    came_ = 0;
    return true;
  }

  static void came(Ring& ring, int version, double now) {
    ring.raw[static_cast<std::size_t>(version)].push_back(now);
    if (!ring.shuffled) ring.ready[static_cast<std::size_t>(version)].push_back(now);
  }

  /// Runs the next permute of the cross-lane unit; returns false if the time of its input is not known yet.
  bool cross() {
    if (next_turn_ == list_.turns.size()) return false;
    const TileList::Turn& turn = list_.turns[next_turn_];
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

  /// Time at which the head of a load queue may send its next request; infinite: not known yet.
  double load_time(const LoadQueue& queue) {
    constexpr double never = std::numeric_limits<double>::infinity();
    if (queue.next == list_.loads[queue.number].size()) return never;
    if (queue.queue.within()) return queue.queue.ready(0);
    const Transfer& head = list_.loads[queue.number][queue.next];
    const double free = free_since(at(list_.shared < 0 ? head.operand : list_.shared), head.version);
    return free < 0 ? never : queue.queue.ready(free);
  }
  double store_time() {
    constexpr double never = std::numeric_limits<double>::infinity();
    if (next_store_ == list_.stores.size()) return never;
    if (store_.within()) return store_.ready(0);
    const Transfer& head = list_.stores[next_store_];
    const auto& ready = at(head.operand).ready[static_cast<std::size_t>(head.version)];
    const auto piece = static_cast<std::size_t>(head.piece);
    return ready.size() <= piece ? never : store_.ready(ready[piece]);
  }

  void send_store(Channels& channels, double now) {
    const Transfer& head = list_.stores[next_store_];
    if (!store_.within()) store_.begin(head.address, head.bytes);
    if (!store_.accepted(channels, now, number_) || !store_.send(channels, now, number_)) return;
    if (head.last) at(head.operand).freed.push_back(store_.done());
    finished(head.step, store_.done());
    ++next_store_;
  }

  TileList list_;
  const VectorProblem& problem_;
  const VectorTiles& tiles_;
  const Share& machine_;
  std::size_t number_ = 0;   ///< index of the core at the memory
  std::size_t loading_ = 0;  ///< queue of the next request; after the last queue: a store
  std::vector<Ring> rings_;
  std::vector<LoadQueue> loads_;
  Queue store_;
  std::size_t next_store_ = 0, next_turn_ = 0, next_item_ = 0;
  std::size_t arrived_ = 0;  ///< number of the next item's inputs with times; the last arrived at `came_`
  double came_ = 0;
  double vector_free_ = 0, cross_free_ = 0;
  std::vector<double> ends_;  ///< per step: end of its last compute or store
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
    walks.emplace_back(TileList(problem, tiles, machine, own, together ? core : -1), problem, tiles, machine,
                       together ? core : -1);
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
