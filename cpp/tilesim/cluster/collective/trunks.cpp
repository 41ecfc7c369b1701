#include "tilesim/cluster/collective/trunks.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <mutex>
#include <optional>

#include "tilesim/base/index.hpp"
#include "tilesim/base/interrupt.hpp"

namespace tilesim::cluster {

namespace {

/// Number of switch levels above the first one on the route between two members.
int climbed(const Trunks& trunks, int a, int b) {
  if (trunks.leaf.empty() || trunks.leaf[at(a)] == trunks.leaf[at(b)]) return 0;
  return !trunks.pod.empty() && trunks.pod[at(a)] != trunks.pod[at(b)] ? 2 : 1;
}

/// Links of one axis, in units of a message's time: ports out and in, then trunks or router links.
class Links {
 public:
  explicit Links(const Axis& axis) : axis_(axis) {
    const int n = axis.size;
    for (int i = 0; i < 2 * n; ++i) add(1, 1);
    first_ = 2 * n;
    const Trunks& trunks = axis.trunks;
    const auto count = [](const std::vector<int>& group) { return group.empty() ? 0 : group.back() + 1; };
    leaves_ = count(trunks.leaf), pods_ = count(trunks.pod);
    for (int i = 0; i < 2 * leaves_; ++i) add(trunks.leaf_lanes, 1);
    for (int i = 0; i < 2 * pods_; ++i) add(trunks.pod_lanes, 1);
    const Routers& fly = axis.routers;
    if (fly.router.empty()) return;
    for (int i = 0; i < fly.groups * fly.per_group * fly.per_group; ++i) add(1, 1);
    for (int i = 0; i < fly.groups * fly.groups; ++i) add(1, fly.global);
  }

  /// Sends a message that is ready at `ready`; returns its arrival time.
  double send(int source, int target, double ready) {
    way_.clear();
    way_.push_back(source);
    if (!axis_.trunks.leaf.empty()) climb(source, target);
    if (!axis_.routers.router.empty()) fly(source, target);
    way_.push_back(axis_.size + target);
    double start = ready, longest = 0;
    for (const int link : way_) start = std::max(start, lane(link));
    for (const int link : way_) {
      lane(link) = start + takes_[at(link)];
      longest = std::max(longest, takes_[at(link)]);
    }
    return start + longest + late_ * static_cast<double>(way_.size());
  }

 private:
  void add(int lanes, double takes) {
    begin_.push_back(free_.size());
    free_.resize(free_.size() + at(lanes), 0.0);
    lanes_.push_back(lanes);
    takes_.push_back(takes);
  }
  double& lane(int link) {
    double* lanes = &free_[begin_[at(link)]];
    return lanes_[at(link)] == 1 ? *lanes : *std::min_element(lanes, lanes + lanes_[at(link)]);
  }
  void climb(int source, int target) {
    const Trunks& trunks = axis_.trunks;
    const int levels = climbed(trunks, source, target), pods = first_ + 2 * leaves_;
    if (levels == 0) return;
    way_.push_back(first_ + trunks.leaf[at(source)]);
    if (levels == 2) way_.insert(way_.end(), {pods + trunks.pod[at(source)], pods + pods_ + trunks.pod[at(target)]});
    way_.push_back(first_ + leaves_ + trunks.leaf[at(target)]);
  }
  /// Group i reaches group j from its router j mod `per_group`, as in the network.
  void fly(int source, int target) {
    const Routers& one = axis_.routers;
    const int per = one.per_group, global = first_ + one.groups * per * per;
    int router = one.router[at(source)];
    const int last = one.router[at(target)], g = router / per, h = last / per;
    const auto walk = [&](int goal) {
      if (router != goal) way_.push_back(first_ + router * per + goal % per);
      router = goal;
    };
    if (g != h) {
      walk(g * per + h % per);
      way_.push_back(global + g * one.groups + h);
      router = h * per + g % per;
    }
    walk(last);
  }

  const Axis& axis_;
  /// Latency of a link in units of a message's time: negligible, but it orders messages that are ready at one time.
  double late_ = axis_.trunks.latency > 0 || !axis_.routers.router.empty() ? 1e-7 : 0;
  int first_ = 0, leaves_ = 0, pods_ = 0;
  std::vector<std::size_t> begin_;
  std::vector<int> lanes_, way_;
  std::vector<double> takes_, free_;
};

/// Time until all members have sent to the members at these distances, in this order.
double time_of(const Axis& axis, const std::vector<int>& distances, bool twice) {
  const int n = axis.size;
  Links links(axis);
  std::vector<double> arrived(at(n), 0.0);
  for (const int distance : distances) {
    worked(n * 4);
    for (int i = 0; i < n; ++i) {
      const int target = (i + distance) % n;
      arrived[at(target)] = std::max(arrived[at(target)], links.send(i, target, 0));
    }
  }
  if (twice) {
    std::map<double, std::vector<int>> ready;
    for (int i = 0; i < n; ++i) ready[arrived[at(i)]].push_back(i);
    for (const auto& [time, members] : ready)
      for (const int distance : distances)
        for (const int i : members) {
          const int target = (i + distance) % n;
          arrived[at(target)] = std::max(arrived[at(target)], links.send(i, target, time));
        }
  }
  return *std::max_element(arrived.begin(), arrived.end());
}

/// Limit on messages; beyond it a sample of distances is simulated.
constexpr int most_sent = 1 << 20;

/// Cache key of everything on which the time depends: switch or router of each member, and links.
std::vector<std::int64_t> key_of(const Axis& axis, bool twice) {
  const Trunks& trunks = axis.trunks;
  const Routers& fly = axis.routers;
  std::vector<std::int64_t> key{
      axis.size,     twice ? 1 : 0, trunks.leaf_lanes,          trunks.pod_lanes,
      fly.per_group, fly.groups,    trunks.latency > 0 ? 1 : 0, std::bit_cast<std::int64_t>(fly.global)};
  for (const auto* each : {&trunks.leaf, &trunks.pod, &fly.router}) {
    key.insert(key.end(), each->begin(), each->end());
    key.push_back(-1);
  }
  return key;
}

/// Cache of times, which are independent of the number of bytes.
class TimeCache {
 public:
  std::optional<double> find(const std::vector<std::int64_t>& key) {
    const std::scoped_lock lock(mutex_);
    const auto found = times_.find(key);
    return found == times_.end() ? std::nullopt : std::optional(found->second);
  }
  void keep(std::vector<std::int64_t> key, double time) {
    const std::scoped_lock lock(mutex_);
    if (times_.size() >= 256) times_.clear();
    times_.insert_or_assign(std::move(key), time);
  }

 private:
  std::mutex mutex_;
  std::map<std::vector<std::int64_t>, double> times_;
};

}  // namespace

std::int64_t latency_between(const Axis& axis, int source, int target) {
  return axis.latency + climbed(axis.trunks, source, target) * axis.trunks.latency;
}

bool crosses(const Axis& axis) { return !axis.trunks.leaf.empty() || !axis.routers.router.empty(); }

double rounds_of_all(const Axis& axis, bool twice) {
  static TimeCache known;
  std::vector<std::int64_t> key = key_of(axis, twice);
  if (const auto found = known.find(key)) return *found;
  const int n = axis.size, all = n - 1, taken = std::min(all, std::max(1, most_sent / n));
  std::vector<int> distances;
  for (int i = 0; i < taken; ++i)  // evenly spread, in ascending order
    distances.push_back(1 + static_cast<int>((2 * std::int64_t{i} + 1) * all / (2 * std::int64_t{taken})));
  const double time = time_of(axis, distances, twice) * all / taken;
  known.keep(std::move(key), time);
  return time;
}

std::int64_t latency_round(const Axis& axis, int turns) {
  const int n = axis.size;
  const auto levels = [&](int i) { return climbed(axis.trunks, i % n, (i + 1) % n); };
  int sum = 0, least = 2 * turns;
  for (int i = 0; i < n; ++i) {
    sum += levels(i);
    int left = 0;
    for (int k = 0; k < turns; ++k) left += levels(i + k);
    least = std::min(least, left);
  }
  return turns * (n - 1) * axis.latency + (turns * sum - least) * axis.trunks.latency;
}

}  // namespace tilesim::cluster
