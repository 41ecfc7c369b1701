#include "tilesim/cluster/collective/trunks.hpp"

#include <algorithm>
#include <set>

#include "tilesim/base/index.hpp"

namespace tilesim::cluster {

namespace {

/// Switches between two members beyond the first level.
int climbed(const Trunks& trunks, int a, int b) {
  if (trunks.leaf.empty() || trunks.leaf[at(a)] == trunks.leaf[at(b)]) return 0;
  return !trunks.pod.empty() && trunks.pod[at(a)] != trunks.pod[at(b)] ? 2 : 1;
}

/// Most messages that cross from a group to others, or into it.
int most_crossing(const std::vector<int>& group, const std::vector<std::pair<int, int>>& messages) {
  if (group.empty()) return 0;
  std::vector<int> out(at(group.back()) + 1, 0), in = out;
  int most = 0;
  for (const auto& [source, target] : messages) {
    const int a = group[at(source)], b = group[at(target)];
    if (a != b) most = std::max({most, ++out[at(a)], ++in[at(b)]});
  }
  return most;
}

/// Numbers of members that the groups have.
std::set<int> counts(const std::vector<int>& group) {
  std::set<int> found;
  for (std::size_t i = 0, first = 0; i < group.size(); ++i)
    if (i + 1 == group.size() || group[i + 1] != group[i]) found.insert(static_cast<int>(i + 1 - first)), first = i + 1;
  return found;
}

}  // namespace

Load load_of(const Axis& axis, const std::vector<std::pair<int, int>>& messages) {
  const Trunks& trunks = axis.trunks;
  int levels = 0;
  for (const auto& [source, target] : messages) levels = std::max(levels, climbed(trunks, source, target));
  const double leaf = static_cast<double>(most_crossing(trunks.leaf, messages)) / trunks.leaf_lanes;
  const double pod = static_cast<double>(most_crossing(trunks.pod, messages)) / trunks.pod_lanes;
  return {std::max({1.0, leaf, pod}), axis.latency + levels * trunks.latency};
}

Load load_of_shift(const Axis& axis, int distance, bool by_xor) {
  if (axis.trunks.leaf.empty()) return {1, axis.latency};
  std::vector<std::pair<int, int>> messages;
  for (int i = 0; i < axis.size; ++i) messages.emplace_back(i, by_xor ? i ^ distance : (i + distance) % axis.size);
  return load_of(axis, messages);
}

double load_of_all(const Axis& axis) {
  const int n = axis.size;
  const std::set<int> leaves = counts(axis.trunks.leaf), pods = counts(axis.trunks.pod);
  double sum = 0;
  for (int k = 1; k < n; ++k) {
    int most = 1;
    // Members of a group follow one another: of a shift by k at most k of them leave it, in turns on its lanes.
    const auto turns = [&](const std::set<int>& groups, int lanes) {
      for (const int c : groups) most = std::max(most, (std::min({k, n - k, c, n - c}) + lanes - 1) / lanes);
    };
    turns(leaves, axis.trunks.leaf_lanes);
    turns(pods, axis.trunks.pod_lanes);
    sum += most;
  }
  return sum;
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
