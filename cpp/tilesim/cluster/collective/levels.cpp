// Closed forms over several axes with separate links: all devices have the same timeline, and one is simulated.
#include "tilesim/cluster/collective/levels.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <queue>
#include <tuple>

#include "tilesim/base/index.hpp"
#include "tilesim/base/interrupt.hpp"
#include "tilesim/cluster/collective/trunks.hpp"

namespace tilesim::cluster {

namespace {

using std::int64_t;

int members(const std::vector<Axis>& axes) {
  int product = 1;
  for (const Axis& axis : axes) product *= axis.size;
  return product;
}

int64_t one_message(int64_t bytes, int64_t count, int64_t pieces, const Axis& axis) {
  return picoseconds(bytes, count, pieces, axis.bytes_per_second);
}

/// A message that takes one link on each of some axes.
class Taken {
 public:
  explicit Taken(int64_t ready) : start_(ready) {}
  void add(int64_t& free, int64_t message, int64_t latency) {
    links_[at(count_++)] = {&free, message};
    start_ = std::max(start_, free);
    longest_ = std::max(longest_, message);
    latency_ += latency;
  }
  /// Occupies the links and returns the arrival time.
  int64_t arrive() {
    for (int i = 0; i < count_; ++i) *links_[at(i)].first = start_ + links_[at(i)].second;
    return start_ + longest_ + latency_;
  }

 private:
  int64_t start_, longest_ = 0, latency_ = 0;
  int count_ = 0;
  std::pair<int64_t*, int64_t> links_[64];
};

}  // namespace

bool own_links(const std::vector<Axis>& axes) {
  return axes.size() <= 64 && std::all_of(axes.begin(), axes.end(), [](const Axis& axis) {
           return (axis.kind == AxisKind::port || axis.kind == AxisKind::full) && axis.exact && !crosses(axis);
         });
}

bool own_hops(const std::vector<Axis>& axes) {
  return std::all_of(axes.begin(), axes.end(), [](const Axis& axis) {
    return axis.kind != AxisKind::line && axis.exact && axis.routers.router.empty();
  });
}

int64_t direct_over(Operation operation, const std::vector<Axis>& axes, int64_t bytes) {
  const int n = members(axes);
  std::vector<int64_t> message;
  std::vector<std::vector<int64_t>> free;  // a full axis has one link per displacement
  for (const Axis& axis : axes) {
    message.push_back(one_message(bytes, 1, n, axis));
    free.emplace_back(axis.kind == AxisKind::full ? at(axis.size) : 1, 0);
  }
  int64_t end = 0;
  const auto round = [&](bool back) {  // a scatter is the gather backwards, in the other direction
    const int64_t ready = end;
    for (int k = 1; k < n; ++k) {
      Taken taken(ready);
      int rest = back ? n - k : k;
      for (std::size_t a = 0; a < axes.size(); ++a) {
        const int size = axes[a].size, moved = rest % size;
        rest /= size;
        if (moved == 0) continue;
        const int link = axes[a].kind == AxisKind::port ? 0 : back ? size - moved : moved;
        taken.add(free[a][at(link)], message[a], axes[a].latency);
      }
      end = std::max(end, taken.arrive());
    }
  };
  worked(int64_t{n} * 4);
  if (operation == Operation::all_reduce || operation == Operation::reduce_scatter) round(true);
  if (operation != Operation::reduce_scatter) round(false);
  return end;
}

int64_t levels_in_pieces(Operation operation, const std::vector<Axis>& axes, int64_t bytes, int64_t pieces) {
  struct Batch {
    std::size_t axis;
    int64_t message;
  };
  std::vector<Batch> levels, up;
  const int64_t n = members(axes);
  int64_t held = n;
  for (std::size_t a = 0; a < axes.size(); ++a) {
    held /= axes[a].size;
    levels.push_back({a, one_message(bytes, held, n * pieces, axes[a])});
  }
  up.assign(levels.rbegin(), levels.rend());
  if (operation == Operation::all_gather) levels.clear();
  if (operation != Operation::reduce_scatter) levels.insert(levels.end(), up.begin(), up.end());
  using Ready = std::tuple<int64_t, int64_t, std::size_t>;  // time, piece, level
  std::priority_queue<Ready, std::vector<Ready>, std::greater<>> queue;
  for (int64_t piece = 0; piece < pieces; ++piece) queue.emplace(0, piece, 0);
  std::vector<int64_t> free(axes.size(), 0);
  int64_t end = 0;
  while (!queue.empty()) {
    const auto [ready, piece, level] = queue.top();
    queue.pop();
    const auto& [a, message] = levels[level];
    const int64_t sent = axes[a].kind == AxisKind::full ? 1 : axes[a].size - 1;
    free[a] = std::max(free[a], ready) + sent * message;
    const int64_t arrival = free[a] + axes[a].latency;
    end = std::max(end, arrival);
    if (level + 1 < levels.size()) queue.emplace(arrival, piece, level + 1);
  }
  return end;
}

namespace {

/// Rings that share ports, each with one message in flight; one device represents all.
class Rings {
 public:
  Rings(Operation operation, const Axis& inside, const Axis& between, int64_t bytes)
      : inside_(inside), between_(between), rings_(inside.size), hops_(inside.size * between.size - 1) {
    const int64_t pieces = int64_t{hops_ + 1} * rings_;
    near_ = one_message(bytes, 1, pieces, inside), far_ = one_message(bytes, 1, pieces, between);
    scattered_ = operation == Operation::all_gather ? 0 : hops_;
    last_ = operation == Operation::all_reduce ? 2 * hops_ : hops_;
    next_.assign(at(rings_), 0), ready_ = next_;
  }

  int64_t run() {
    using Ready = std::tuple<int64_t, int64_t, int>;  // time, step, ring
    std::vector<Ready> rest;
    for (int ring = 0; ring < rings_; ++ring) rest.emplace_back(0, step(ring), ring);
    std::priority_queue<Ready, std::vector<Ready>, std::greater<>> queue(std::greater<>{}, std::move(rest));
    int64_t end = 0;
    while (!queue.empty()) {
      const auto [time, order, ring] = queue.top();
      if (ring == 0 && again(time)) {  // a repeating state was skipped: rebuild the queue
        std::vector<Ready> moved;
        for (int one = 0; one < rings_; ++one)
          if (next_[at(one)] < last_) moved.emplace_back(ready_[at(one)], step(one), one);
        queue = decltype(queue)(std::greater<>{}, std::move(moved));
        continue;
      }
      queue.pop();
      worked(4);
      const int64_t arrival = send(ring, time);
      ready_[at(ring)] = arrival;
      end = std::max(end, arrival);
      if (++next_[at(ring)] < last_) queue.emplace(arrival, step(ring), ring);
    }
    return end;
  }

 private:
  /// Hops from the owner of the block: ascending in a gather, descending in a sum.
  int64_t hop(int ring) const {
    const int64_t next = next_[at(ring)];
    return next < scattered_ ? hops_ - 1 - next : next - scattered_;
  }
  bool back(int ring) const { return next_[at(ring)] < scattered_; }
  int64_t place(int ring) const { return (ring + hop(ring)) % rings_; }
  /// Order of messages that are ready at the same time: earlier steps first.
  int64_t step(int ring) const {
    const int64_t own = hop(ring) * rings_ + place(ring), length = int64_t{hops_} * rings_;
    return back(ring) ? length - 1 - own : length + own;
  }

  int64_t send(int ring, int64_t time) {
    const auto link = [&](const Axis& axis) {  // a full axis of three or more has one link per direction
      return axis.kind == AxisKind::full && axis.size > 2 && back(ring) ? 1 : 0;
    };
    Taken taken(time);
    taken.add(free_[link(inside_)], near_, inside_.latency);
    if (place(ring) + 1 == rings_) taken.add(free_[2 + link(between_)], far_, between_.latency);
    return taken.arrive();
  }

  /// Whether the state equals an earlier one, shifted in time; if so, skips as many such periods as possible.
  bool again(int64_t time) {
    const int64_t first = next_[0], limit = first < scattered_ ? scattered_ : last_;
    const int64_t most = *std::max_element(next_.begin(), next_.end());
    if (first % rings_ != 0 || most >= limit) return false;
    if (first >= scattered_ && *std::min_element(next_.begin(), next_.end()) < scattered_) return false;
    std::vector<int64_t> now;
    for (int ring = 0; ring < rings_; ++ring) {
      now.push_back(next_[at(ring)] - first);
      now.push_back(ready_[at(ring)] - time);
    }
    for (const int64_t free : free_) now.push_back(std::max<int64_t>(0, free - time));
    const bool same = limit == limit_ && now == kept_;
    const int64_t period = first - kept_first_, times = same ? (limit - 1 - most) / period : 0;
    if (times > 0) {
      const int64_t later = times * (time - kept_time_);
      for (int64_t& next : next_) next += times * period;
      for (int64_t& ready : ready_) ready += later;
      for (int64_t& free : free_) free += later;
      return true;
    }
    if (limit != limit_ || ++seen_ >= until_) {  // compare with this state for ever longer
      until_ = limit == limit_ ? 2 * until_ : 1;
      limit_ = limit, kept_ = std::move(now), kept_first_ = first, kept_time_ = time, seen_ = 0;
    }
    return false;
  }

  Axis inside_, between_;
  int rings_, hops_;
  int64_t near_ = 0, far_ = 0, scattered_ = 0, last_ = 0;
  std::vector<int64_t> next_, ready_;  ///< per ring: number of its next message, and its ready time
  int64_t free_[4] = {0, 0, 0, 0};     ///< free times: inside forward and back, between forward and back
  std::vector<int64_t> kept_;
  int64_t limit_ = -1, kept_first_ = 0, kept_time_ = 0, seen_ = 0, until_ = 1;
};

}  // namespace

int64_t rings_through(Operation operation, const Axis& inside, const Axis& between, int64_t bytes) {
  return Rings(operation, inside, between, bytes).run();
}

std::optional<Closed> halving_over(Operation operation, const std::vector<Axis>& axes, int64_t bytes) {
  const int64_t n = members(axes);
  if (!std::has_single_bit(static_cast<std::uint64_t>(n))) return std::nullopt;
  int64_t time = 0, stride = 1;
  bool exact = true;
  for (const Axis& axis : axes) {
    if ((axis.grid() && axis.size > 2) || crosses(axis)) return std::nullopt;
    exact = exact && (axis.exact || axis.kind == AxisKind::line);
    for (int64_t distance = 1; distance < axis.size; distance *= 2)
      time += one_message(bytes, distance * stride, n, axis) + axis.latency;
    stride *= axis.size;
  }
  return Closed{operation == Operation::all_reduce ? 2 * time : time, exact};
}

int64_t chain_over(const std::vector<Axis>& axes, int root, int64_t bytes, int64_t pieces) {
  const int n = members(axes);
  int64_t time = 0, longest = 0;
  for (int hop = 0; hop + 1 < n; ++hop) {
    int source = (root + hop) % n, target = (source + 1) % n;
    int64_t message = 0;
    for (const Axis& axis : axes) {
      if (source % axis.size != target % axis.size) {
        message = std::max(message, one_message(bytes, 1, pieces, axis));
        time += latency_between(axis, source % axis.size, target % axis.size);
      }
      source /= axis.size, target /= axis.size;
    }
    time += message;
    longest = std::max(longest, message);
  }
  return time + (pieces - 1) * longest;
}

int64_t root_to_all(const std::vector<Axis>& axes, int root, int64_t bytes) {
  const int n = members(axes);
  std::vector<std::vector<int64_t>> free;  // by position of the message; of a full axis by its target
  int stride = 1;
  for (const Axis& axis : axes) {
    free.emplace_back(at(axis.kind == AxisKind::full ? stride * axis.size : stride), 0);
    stride *= axis.size;
  }
  int64_t end = 0;
  for (int target = 0; target < n; ++target) {
    Taken taken(0);
    stride = 1;
    for (std::size_t a = 0; a < axes.size(); ++a) {
      const int size = axes[a].size;
      if (root / stride % size != target / stride % size)
        taken.add(free[a][at(target % (axes[a].kind == AxisKind::full ? stride * size : stride))],
                  one_message(bytes, 1, 1, axes[a]), axes[a].latency);
      stride *= size;
    }
    if (target != root) end = std::max(end, taken.arrive());
  }
  return end;
}

}  // namespace tilesim::cluster
