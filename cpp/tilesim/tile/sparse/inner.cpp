#include "tilesim/tile/sparse/inner.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include "tilesim/base/interrupt.hpp"
#include "tilesim/tile/sparse/adder_tree.hpp"

namespace tilesim::sparse {

namespace {

/// Adjacent multipliers that form one sum. `carried`: the first one holds the sum of the earlier parts.
struct Run {
  std::int64_t low = 0, high = 0;
  bool carried = false;
};

/// Time at which result t of a sum is ready: the largest of first + t · step.
struct Arrivals {
  struct Line { std::int64_t first = 0, step = 0; };
  std::vector<Line> lines;
  std::int64_t at(std::int64_t t) const {
    std::int64_t latest = 0;
    for (const Line& line : lines) latest = std::max(latest, line.first + t * line.step);
    return latest;
  }
};

/// One placement: the elements on the multipliers, and the time from its configuration to its last result in memory.
class Placement {
 public:
  Placement(const SparseCore& core, const AdderTree& tree, std::int64_t streamed)
      : core_(core), tree_(tree), streamed_(streamed), block_(core.multipliers / core.read_ports) {}

  std::int64_t used() const { return static_cast<std::int64_t>(index_.size()); }
  bool empty() const { return runs_.empty(); }
  void add(const std::int32_t* from, std::int64_t count, bool carried) {
    const std::int64_t low = used();
    if (carried) index_.push_back(-1);
    index_.insert(index_.end(), from, from + count);
    runs_.push_back({low, used() - 1, carried});
  }
  void clear() {
    index_.clear();
    runs_.clear();
  }
  std::int64_t cycles();

 private:
  void read_ports();
  Arrivals arrivals(const Run& run, const AdderTree::Path& path) const;
  std::int64_t written(std::vector<std::vector<Arrivals>>& by_line);

  const SparseCore& core_;
  const AdderTree& tree_;
  std::int64_t streamed_, block_;
  std::vector<std::int32_t> index_;  ///< contraction index held by each multiplier; -1: a carried sum
  std::vector<Run> runs_;
  std::vector<std::int64_t> words_, different_, rank_;  ///< per port, per port, per multiplier
  std::vector<std::int32_t> sorted_;
  std::vector<std::int64_t> times_;
  std::vector<std::int32_t> taken_;
};

/// Finds the stationary words of each port, its distinct contraction indices, and the rank of each index among them: a
/// streamed element is sent once per port that needs it, in order of the index.
void Placement::read_ports() {
  const std::int64_t ports = (used() + block_ - 1) / block_;
  words_.assign(static_cast<std::size_t>(ports), 0);
  different_.assign(static_cast<std::size_t>(ports), 0);
  rank_.assign(index_.size(), 0);
  for (std::int64_t port = 0; port < ports; ++port) {
    const auto begin = index_.begin() + port * block_, end = index_.begin() + std::min((port + 1) * block_, used());
    sorted_.assign(begin, end);
    std::sort(sorted_.begin(), sorted_.end());
    const auto held = std::upper_bound(sorted_.begin(), sorted_.end(), -1);
    words_[static_cast<std::size_t>(port)] = sorted_.end() - held;
    sorted_.erase(sorted_.begin(), held);
    sorted_.erase(std::unique(sorted_.begin(), sorted_.end()), sorted_.end());
    different_[static_cast<std::size_t>(port)] = static_cast<std::int64_t>(sorted_.size());
    for (auto it = begin; it != end; ++it)
      rank_[static_cast<std::size_t>(it - index_.begin())] =
          std::upper_bound(sorted_.begin(), sorted_.end(), *it) - sorted_.begin();
  }
}

Arrivals Placement::arrivals(const Run& run, const AdderTree::Path& path) const {
  Arrivals result;
  for (std::int64_t port = run.low / block_; port <= run.high / block_; ++port) {
    const auto p = static_cast<std::size_t>(port);
    const bool carries = run.carried && port == run.low / block_;
    std::int64_t latest = 0;
    for (std::int64_t i = std::max(run.low, port * block_); i <= std::min(run.high, (port + 1) * block_ - 1); ++i)
      if (index_[static_cast<std::size_t>(i)] >= 0)
        latest = std::max(latest, rank_[static_cast<std::size_t>(i)] + path.late(i));
    // Carried sums are sent first, one a cycle from the second cycle on.
    if (latest > 0)
      result.lines.push_back({words_[p] + (carries ? streamed_ : 0) + latest + path.level + 1, different_[p]});
    else
      result.lines.push_back({2 + path.level + 1, 1});
  }
  return result;
}

/// Lines send one sum per cycle; half of the sums that arrived, rounded up, are written at a time. Returns the cycle of
/// the last write.
std::int64_t Placement::written(std::vector<std::vector<Arrivals>>& by_line) {
  taken_.clear();
  for (const auto& runs : by_line) {
    times_.clear();
    for (const Arrivals& run : runs)
      for (std::int64_t t = 0; t < streamed_; ++t) times_.push_back(run.at(t));
    if (runs.size() > 1) std::sort(times_.begin(), times_.end());
    std::int64_t free = 0;
    for (const std::int64_t time : times_) {
      const std::int64_t sent = std::max(free, time);
      free = sent + 1;
      if (taken_.size() <= static_cast<std::size_t>(sent)) taken_.resize(static_cast<std::size_t>(sent) + 1);
      ++taken_[static_cast<std::size_t>(sent)];
    }
  }
  std::int64_t waiting = 0, last = 0;
  for (std::int64_t cycle = 0; cycle < static_cast<std::int64_t>(taken_.size()) || waiting > 0; ++cycle) {
    if (cycle < static_cast<std::int64_t>(taken_.size())) waiting += taken_[static_cast<std::size_t>(cycle)];
    if (waiting > 0) last = cycle;
    waiting /= 2;
  }
  return last;
}

std::int64_t Placement::cycles() {
  read_ports();
  std::int64_t last = 0;
  if (runs_.size() == 1) {
    last = arrivals(runs_[0], tree_.path(runs_[0].low, runs_[0].high)).at(streamed_ - 1);
  } else {
    std::map<std::int32_t, std::size_t> place;
    std::vector<std::vector<Arrivals>> by_line;
    for (const Run& run : runs_) {
      const AdderTree::Path path = tree_.path(run.low, run.high);
      const auto [found, fresh] = place.try_emplace(tree_.line(path.level, path.index), by_line.size());
      if (fresh) by_line.emplace_back();
      by_line[found->second].push_back(arrivals(run, path));
    }
    last = written(by_line);
  }
  // Configuration, multiplication, line and write take a cycle each; so does the distribution, except for ports of one
  // multiplier, which are wired through.
  return last + (block_ == 1 ? 3 : 4);
}

}  // namespace

SparseTime inner_time(const SparseCore& core, const BitMatrix& held, std::int64_t streamed) {
  SparseTime time;
  if (streamed == 0) return time;
  const AdderTree tree(core.multipliers, core.write_ports);
  Placement placement(core, tree, streamed);
  const auto close = [&] {
    if (placement.empty()) return;
    worked(placement.used() + streamed);
    time.cycles += static_cast<double>(placement.cycles());
    ++time.placements;
    placement.clear();
  };
  std::vector<std::int32_t> found;
  for (std::int64_t vector = 0; vector < held.rows(); ++vector) {
    found.clear();
    held.positions(vector, found);
    const auto count = static_cast<std::int64_t>(found.size());
    time.products += static_cast<double>(count) * static_cast<double>(streamed);
    if (count > core.multipliers - placement.used()) close();
    if (count == 0) continue;
    if (count <= core.multipliers) {
      placement.add(found.data(), count, false);
      continue;
    }
    for (std::int64_t from = 0; from < count;) {  // folded: one multiplier takes the sum of the earlier parts
      const std::int64_t part = std::min(count - from, core.multipliers - (from > 0));
      placement.add(found.data() + from, part, from > 0);
      from += part;
      close();
    }
  }
  close();
  return time;
}

SparseTime expected_inner(const SparseCore& core, std::int64_t vectors, std::int64_t contracted, std::int64_t nonzeros,
                          std::int64_t streamed) {
  constexpr int draws = 4;
  SparseTime mean;
  std::uint64_t state = 88172645463325252;
  for (int draw = 0; draw < draws; ++draw) {
    BitMatrix held(vectors, contracted);
    std::int64_t open = nonzeros, left = vectors * contracted;  // elements are nonzero with the remaining probability
    for (std::int64_t r = 0; r < vectors; ++r)
      for (std::int64_t c = 0; c < contracted; ++c, --left) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        if (static_cast<std::int64_t>((state >> 11) % static_cast<std::uint64_t>(left)) < open) {
          held.set(r, c);
          --open;
        }
      }
    const SparseTime time = inner_time(core, held, streamed);
    mean.cycles += time.cycles / draws;
    mean.placements += time.placements / draws;
    mean.products += time.products / draws;
  }
  return mean;
}

}  // namespace tilesim::sparse
