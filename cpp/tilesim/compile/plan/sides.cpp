#include "tilesim/compile/plan/sides.hpp"

#include <algorithm>
#include <deque>
#include <set>

#include "tilesim/base/index.hpp"
#include "tilesim/base/interrupt.hpp"

namespace tilesim {

namespace {

constexpr Int128 forever = Int128{1} << 100;
constexpr Int128 fine = Int128{1} << 20;  ///< scale of times, so that one transfer breaks ties

/// The smallest cut of a graph whose edges have integer capacities (Dinic 1970: shortest augmenting paths in phases).
class MinCut {
 public:
  explicit MinCut(std::size_t nodes) : from_(nodes) {}

  void edge(std::size_t a, std::size_t b, Int128 capacity) {
    for (const auto& [start, end, left] : {Edge{a, b, capacity}, Edge{b, a, 0}}) {
      from_[start].push_back(to_.size());
      to_.push_back(end);
      left_.push_back(left);
    }
  }

  /// By node: whether it is on the source side of the minimum cut with the most nodes on this side.
  std::vector<bool> source_side(std::size_t source, std::size_t sink) {
    while (find_levels(source, sink)) {
      next_.assign(from_.size(), 0);
      while (augment(source, sink)) worked(1 << 10);
    }
    std::vector<bool> stays(from_.size(), true);
    std::deque<std::size_t> queue{sink};
    stays[sink] = false;
    for (; !queue.empty(); queue.pop_front())
      for (const std::size_t edge : from_[queue.front()])
        if (left_[edge ^ 1] > 0 && stays[to_[edge]]) {
          stays[to_[edge]] = false;
          queue.push_back(to_[edge]);
        }
    return stays;
  }

 private:
  struct Edge {
    std::size_t a, b;
    Int128 left;
  };

  bool find_levels(std::size_t source, std::size_t sink) {
    level_.assign(from_.size(), -1);
    level_[source] = 0;
    std::deque<std::size_t> queue{source};
    for (; !queue.empty(); queue.pop_front())
      for (const std::size_t edge : from_[queue.front()])
        if (left_[edge] > 0 && level_[to_[edge]] < 0) {
          level_[to_[edge]] = level_[queue.front()] + 1;
          queue.push_back(to_[edge]);
        }
    return level_[sink] >= 0;
  }

  /// Augments the flow along one path of the level graph; false if there is none.
  bool augment(std::size_t source, std::size_t sink) {
    std::vector<std::size_t> path;
    for (std::size_t node = source; node != sink;) {
      const std::vector<std::size_t>& edges = from_[node];
      std::size_t& next = next_[node];
      while (next < edges.size() && !(left_[edges[next]] > 0 && level_[to_[edges[next]]] == level_[node] + 1)) ++next;
      if (next < edges.size()) {
        path.push_back(edges[next]);
        node = to_[edges[next]];
      } else if (path.empty()) {
        return false;
      } else {  // dead end: go back one step
        node = to_[path.back() ^ 1];
        path.pop_back();
        ++next_[node];
      }
    }
    Int128 sent = forever * 2;
    for (const std::size_t edge : path) sent = std::min(sent, left_[edge]);
    for (const std::size_t edge : path) {
      left_[edge] -= sent;
      left_[edge ^ 1] += sent;
    }
    return true;
  }

  std::vector<std::vector<std::size_t>> from_;  ///< edges by node
  std::vector<std::size_t> to_;
  std::vector<Int128> left_;
  std::vector<int> level_;
  std::vector<std::size_t> next_;
};

/// By value: the items that read it, each once.
std::vector<std::vector<int>> readers_of(const Sides& sides) {
  std::vector<std::vector<int>> readers(sides.values.size());
  for (std::size_t i = 0; i < sides.items.size(); ++i)
    for (const int value : sides.items[i].operands)
      if (at(value) < readers.size() &&
          (readers[at(value)].empty() || readers[at(value)].back() != static_cast<int>(i)))
        readers[at(value)].push_back(static_cast<int>(i));
  return readers;
}

/// By value: the item that produces it; -1: an input of the graph.
std::vector<int> makers_of(const Sides& sides) {
  std::vector<int> makers(sides.values.size(), -1);
  for (std::size_t i = 0; i < sides.items.size(); ++i)
    for (const int value : sides.items[i].results)
      if (at(value) < makers.size()) makers[at(value)] = static_cast<int>(i);
  return makers;
}

/// Greedy runs: each takes all ready items of its side. No order that starts on the same side has fewer runs.
std::vector<std::pair<bool, std::vector<int>>> turns_from(const Sides& sides, const std::vector<bool>& host,
                                                          bool side) {
  std::set<int> waits;  // values not produced yet
  for (const SideItem& item : sides.items) waits.insert(item.results.begin(), item.results.end());
  std::vector<int> left(sides.items.size());
  for (std::size_t i = 0; i < left.size(); ++i) left[i] = static_cast<int>(i);
  std::vector<std::pair<bool, std::vector<int>>> turns;
  for (; !left.empty(); side = !side) {
    std::vector<int> now, later;
    for (const int i : left) {
      worked(64);
      const SideItem& item = sides.items[at(i)];
      const bool runs =
          host[at(i)] == side && std::ranges::none_of(item.operands, [&](int value) { return waits.contains(value); });
      (runs ? now : later).push_back(i);
      if (runs)
        for (const int value : item.results) waits.erase(value);
    }
    if (!now.empty()) turns.emplace_back(side, std::move(now));
    left = std::move(later);
  }
  return turns;
}

}  // namespace

Int128 SideLink::picoseconds(std::int64_t bytes) const {
  constexpr std::int64_t second = 1'000'000'000'000;
  return latency + (Int128{bytes} * second + bytes_per_second - 1) / bytes_per_second;
}

/// Minimum cut. Per value and direction an extra node has one edge with the price of a transfer, so that a value with
/// several readers on the other side pays once (Hu and Moerder 1985, hyperedges in flow networks).
std::vector<bool> Sides::cheapest() const {
  constexpr std::size_t machine = 0, host = 1;
  const std::vector<int> makers = makers_of(*this);
  const std::vector<std::vector<int>> readers = readers_of(*this);
  const auto node = [](int item) { return item < 0 ? machine : static_cast<std::size_t>(item) + 2; };
  MinCut cut(2 + items.size() + 2 * values.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    cut.edge(machine, i + 2, items[i].host ? *items[i].host * fine : forever);
    cut.edge(i + 2, host, items[i].machine ? *items[i].machine * fine : forever);
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Int128 price = link.picoseconds(values[i].bytes) * fine + 1;
    const std::size_t down = 2 + items.size() + 2 * i, up = down + 1;
    cut.edge(node(makers[i]), down, price);
    cut.edge(up, node(makers[i]), price);
    std::vector<int> reading = readers[i];
    if (values[i].output) reading.push_back(-1);
    for (const int reader : reading) {
      cut.edge(down, node(reader), forever);
      cut.edge(node(reader), up, forever);
    }
  }
  const std::vector<bool> stays = cut.source_side(machine, host);
  std::vector<bool> there(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) there[i] = !stays[i + 2];
  return there;
}

std::vector<Crossing> Sides::crossings(const std::vector<bool>& host) const {
  const std::vector<int> makers = makers_of(*this);
  const std::vector<std::vector<int>> readers = readers_of(*this);
  std::vector<Crossing> found;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool made_there = makers[i] >= 0 && host[at(makers[i])];
    const auto reads_on = [&](bool side) {
      return (!side && values[i].output) || std::ranges::any_of(readers[i], [&](int r) { return host[at(r)] == side; });
    };
    if (reads_on(!made_there)) found.push_back({static_cast<int>(i), !made_there});
  }
  return found;
}

std::vector<std::pair<bool, std::vector<int>>> Sides::turns(const std::vector<bool>& host) const {
  auto first = turns_from(*this, host, false), other = turns_from(*this, host, true);
  return other.size() < first.size() ? other : first;
}

}  // namespace tilesim
