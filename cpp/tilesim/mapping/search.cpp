// Best-first search: closed forms bound every nest from below, and only promising ones are walked tile by tile.
#include <algorithm>
#include <limits>
#include <set>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/mapping/space.hpp"

namespace tilesim::mapping {

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

bool less_bound(const Ranked& a, const Ranked& b) { return a.cost.bound < b.cost.bound; }

class Search {
 public:
  Search(const Problem& problem, const Machine& machine, std::size_t keep, const SearchOptions& options)
      : model_(problem, machine),
        space_(space(problem, machine)),
        keep_(keep),
        options_(options),
        margin_(keep > 1 ? 1.25 : 1) {}

  Found run() {
    const Nest start = heuristic(model_.problem(), model_.machine());
    Ranked first{start, model_.steps(start), model_.price(start)};
    known_ = first.cycles;
    if (first.cycles == infinite) first.cycles = first.cost.bound;
    first.nest.on_vector = model_.problem().on_vector;
    found_.best.push_back(first);
    double tiles = 1;
    for (const auto& sizes : space_.tiles) tiles *= static_cast<double>(sizes.size());
    found_.complete = tiles <= static_cast<double>(options_.most_priced) / 8;
    descend(start);
    if (found_.complete) {
      first_guess();
      enumerate();
    } else {
      for (const char* rule : {"gemmini", "pytorchsim"})
        descend(by_strategy(rule, model_.problem(), model_.machine()));  // other places to start from
      relax();
    }
    walk();
    return std::move(found_);
  }

 private:
  std::int64_t trips(const Nest& nest, std::size_t d) const {
    return ceil_div(model_.problem().domain.extents[d], nest.tiles[d]);
  }

  double consider(const Nest& nest) {
    if (options_.cancel && (found_.priced & 255) == 0) options_.cancel->poll();
    if (!model_.fits(nest)) return infinite;
    ++found_.priced;
    const Cost cost = model_.price(nest);
    if (cost.bound <= known_ * margin_) candidates_.push_back({nest, cost.bound, cost});
    return cost.bound;
  }

  /// Orders that differ only in loops of one trip are one.
  std::vector<const std::vector<int>*> distinct_orders(const Nest& nest) const {
    std::vector<const std::vector<int>*> result;
    std::vector<std::uint64_t> seen;
    for (const auto& order : space_.orders) {
      std::uint64_t loops = 0;  // dims are few: five bits each
      for (int dim : order)
        if (trips(nest, static_cast<std::size_t>(dim)) > 1) loops = loops * 31 + static_cast<std::uint64_t>(dim) + 1;
      if (std::find(seen.begin(), seen.end(), loops) != seen.end()) continue;
      seen.push_back(loops);
      result.push_back(&order);
    }
    return result;
  }

  void enumerate() {
    const std::size_t dims = space_.tiles.size();
    std::vector<std::size_t> at(dims, 0);
    Nest nest = space_.at(0);
    while (true) {
      for (std::size_t d = 0; d < dims; ++d) nest.tiles[d] = space_.tiles[d][at[d]];
      try_tiles(nest);
      std::size_t d = 0;
      for (; d < dims; ++d) {
        if (++at[d] < space_.tiles[d].size()) break;
        at[d] = 0;
      }
      if (d == dims) return;
    }
  }

  /// All orders and depths of given tiles, as far as they can still win; one buffer for what is filled once.
  void try_tiles(Nest nest) {
    nest.depths = {1, 1, 1};
    nest.order = space_.orders[0];
    if (!model_.fits(nest)) return;  // other orders keep as many sums on chip, or more
    for (const auto* order : distinct_orders(nest)) {
      if (options_.cancel && (found_.priced & 255) == 0) options_.cancel->poll();
      nest.order = *order;
      Cost cost = model_.price(nest);
      ++found_.priced;
      if (cost.flat > known_ * margin_) continue;
      std::uint64_t seen = 0;  // depths are at most 4
      for (const auto& depths : space_.depths) {
        for (std::size_t i = 0; i < 3; ++i) nest.depths[i] = std::min(depths[i], cost.transfers[i]);
        const auto code = (nest.depths[0] - 1) | (nest.depths[1] - 1) << 2 | (nest.depths[2] - 1) << 4;
        if (seen >> code & 1) continue;
        seen |= std::uint64_t{1} << code;
        model_.with_depths(cost, nest.depths);
        if (cost.bound <= known_ * margin_ && model_.fits(nest)) candidates_.push_back({nest, cost.bound, cost});
      }
    }
  }

  /// Steepest descent by closed form from the heuristic's nest, in every order.
  void descend(const Nest& start) {
    for (const auto* order : distinct_orders(start)) {
      Nest here = start;
      here.order = *order;
      double now = consider(here);
      for (int round = 0; round < 64 && found_.priced < options_.most_priced; ++round) {
        Nest next = here;
        double best = now;
        for (const Nest& other : space_.neighbours(here))
          if (const double bound = consider(other); bound < best) {
            best = bound;
            next = other;
          }
        if (best >= now * (1 - 1e-9)) break;
        here = next;
        now = best;
      }
    }
  }

  /// Walks the most promising nests so far: a known time cuts the enumeration short.
  void first_guess() {
    std::stable_sort(candidates_.begin(), candidates_.end(), less_bound);
    for (std::size_t i = 0; i < std::min<std::size_t>(3, candidates_.size()); ++i)
      known_ = std::min(known_, model_.steps(candidates_[i].nest, i == 0 ? 10000 : 3000));
  }

  /// What no nest beats: every byte once at full bandwidth, every product at the array's peak.
  void relax() {
    const Problem& problem = model_.problem();
    Nest whole{problem.domain.extents, space_.orders[0], {1, 1, 1}};
    const Cost once = model_.price(whole);
    floor_ = once.memory;
    if (problem.on_vector) return;
    double products = 1;
    for (std::int64_t extent : problem.domain.extents) products *= static_cast<double>(extent);
    const ArraySpec& array = model_.machine().core.array;
    const auto rate = array.rates.find(problem.dtypes[0]);
    const double peak = static_cast<double>(array.count * array.rows * array.columns) *
                        (rate == array.rates.end() ? 1.0 : rate->second);
    floor_ = std::max(floor_, products / peak);
  }

  /// Walks one candidate unless its bound, its number of tiles or the budget speaks against it.
  void walk_one(Ranked& candidate, double share) {
    if (candidate.cycles != not_walked || candidate.cost.bound > known_) return;
    double count = 1;
    for (std::size_t d = 0; d < candidate.nest.tiles.size(); ++d)
      count *= static_cast<double>(trips(candidate.nest, d));
    const auto keep = static_cast<double>(keep_);
    const double most_walked = std::max(static_cast<double>(options_.most_walked), keep);
    const double most_steps = std::max(static_cast<double>(options_.most_steps), 1000 * keep);
    if (static_cast<double>(found_.walked) >= share * most_walked || steps_ + count > share * most_steps) return;
    if (options_.cancel) options_.cancel->poll();
    steps_ += count;
    ++found_.walked;
    candidate.cycles = model_.steps(candidate.nest);
    if (keep_ == 1) known_ = std::min(known_, candidate.cycles);
    found_.best.push_back(candidate);
  }

  /// Steps from the best nest to neighbours that are faster when walked.
  void improve() {
    constexpr int most_rounds = 6;
    for (int round = 0; round < most_rounds; ++round) {
      const auto faster = [](const Ranked& a, const Ranked& b) { return a.cycles < b.cycles; };
      const Ranked best = *std::min_element(found_.best.begin(), found_.best.end(), faster);
      bool moved = false;
      for (const Nest& nest : space_.neighbours(best.nest)) {
        if (options_.cancel) options_.cancel->poll();
        if (!model_.fits(nest)) continue;
        const Cost cost = model_.price(nest);
        ++found_.priced;
        if (cost.bound >= best.cycles) continue;
        ++found_.walked;
        const double cycles = model_.steps(nest, 6000);
        if (cycles >= best.cycles) continue;
        found_.best.push_back({nest, cycles, cost});
        known_ = std::min(known_, cycles);
        moved = true;
      }
      if (!moved) return;
    }
  }

  /// First those whose parts are all low, to find a good nest; then by bound, to prove that there is no better one.
  void walk() {
    remove_doubles();
    for (Ranked& candidate : candidates_) candidate.cycles = not_walked;
    std::stable_sort(candidates_.begin(), candidates_.end(),
                     [](const Ranked& a, const Ranked& b) { return a.cost.soft < b.cost.soft; });
    for (Ranked& candidate : candidates_) walk_one(candidate, keep_ == 1 ? 0.7 : 1);
    std::stable_sort(candidates_.begin(), candidates_.end(), less_bound);
    for (Ranked& candidate : candidates_) walk_one(candidate, 1);
    for (const Ranked& ranked : found_.best) known_ = std::min(known_, ranked.cycles);
    if (!found_.complete) improve();
    double unexplored = infinite;
    for (const Ranked& candidate : candidates_)
      if (candidate.cycles == not_walked) unexplored = std::min(unexplored, candidate.cost.bound);
    std::stable_sort(found_.best.begin(), found_.best.end(),
                     [](const Ranked& a, const Ranked& b) { return a.cycles < b.cycles; });
    if (found_.best.size() > std::max<std::size_t>(1, keep_)) found_.best.resize(std::max<std::size_t>(1, keep_));
    found_.lower_bound = std::min(known_, found_.complete ? unexplored : floor_);
  }

  /// Descent and enumeration meet the same nests.
  void remove_doubles() {
    std::set<std::vector<std::int64_t>> seen;
    std::erase_if(candidates_, [&](const Ranked& candidate) {
      std::vector<std::int64_t> key = candidate.nest.tiles;
      key.insert(key.end(), candidate.nest.depths.begin(), candidate.nest.depths.end());
      key.insert(key.end(), candidate.nest.order.begin(), candidate.nest.order.end());
      return !seen.insert(std::move(key)).second;
    });
  }

  static constexpr double not_walked = -1;
  CostModel model_;
  Space space_;
  std::size_t keep_;
  SearchOptions options_;
  std::vector<Ranked> candidates_;
  Found found_;
  double known_ = 0, floor_ = 0, steps_ = 0;
  double margin_ = 1;  ///< nests whose bound is above the best known time by more are not kept
};

}  // namespace

Found search(const Problem& problem, const Machine& machine, std::size_t keep, const SearchOptions& options) {
  return Search(problem, machine, keep, options).run();
}

namespace {

std::vector<std::int64_t> sizes_of(std::int64_t extent, Sizes sizes) {
  Problem problem;
  problem.domain.extents = {extent};
  return space(problem, Machine{}, sizes).tiles[0];
}

/// How often each operand is fetched: once per trip of a loop that it does not depend on, unless no loop inside that
/// one is its own. The result is written once per pass and read once per pass after the first.
std::int64_t moved_words(const std::int64_t (&extents)[3], const std::int64_t (&trips)[3], const int (&order)[3]) {
  static constexpr int foreign[3] = {1, 0, 2};  // a[m, k], b[k, n], c[m, n] do not depend on n, m, k
  static constexpr int own[3][2] = {{0, 2}, {2, 1}, {0, 1}};
  std::int64_t total = 0;
  for (int operand = 0; operand < 3; ++operand) {
    const std::int64_t size = extents[own[operand][0]] * extents[own[operand][1]];
    std::int64_t passes = 1;
    for (int i = 0; i < 3; ++i)
      if (order[i] == foreign[operand])
        for (int j = i + 1; j < 3; ++j)
          if (trips[order[j]] > 1) passes = trips[order[i]];
    total += operand < 2 ? size * passes : size * (2 * passes - 1);
  }
  return total;
}

}  // namespace

LeastTraffic least_traffic(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t words, Sizes sizes) {
  const std::int64_t extents[3] = {m, n, k};
  for (std::int64_t extent : extents)
    if (extent < 1) throw UserError({"a product needs positive extents", {}, std::to_string(extent), "1 or more", {}});
  static constexpr int orders[6][3] = {{0, 1, 2}, {1, 0, 2}, {0, 2, 1}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  LeastTraffic best;
  best.words = -1;
  const auto rows = sizes_of(m, sizes), columns = sizes_of(n, sizes), depths = sizes_of(k, sizes);
  for (std::int64_t tm : rows)
    for (std::int64_t tn : columns)
      for (std::int64_t tk : depths) {
        if (tm * tk + tk * tn + tm * tn > words) break;
        const std::int64_t trips[3] = {ceil_div(m, tm), ceil_div(n, tn), ceil_div(k, tk)};
        for (const auto& order : orders) {
          const std::int64_t moved = moved_words(extents, trips, order);
          if (best.words >= 0 && moved >= best.words) continue;
          best = {moved, {tm, tn, tk}, {}};
          for (int dim : order) best.order += "mnk"[dim];
        }
      }
  return best;
}

}  // namespace tilesim::mapping
