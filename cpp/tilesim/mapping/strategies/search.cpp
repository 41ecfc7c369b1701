// Best-first search: closed forms give lower bounds for all nests, and only promising nests are walked tile by tile.
#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <list>
#include <set>

#include "tilesim/base/shape.hpp"
#include "tilesim/mapping/identity.hpp"
#include "tilesim/mapping/space.hpp"
#include "tilesim/mapping/strategies/few_bytes.hpp"

namespace tilesim::mapping {

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

/// A nest that may be the best. The type is compact because there are tens of thousands of them.
struct Candidate {
  std::size_t tiles;              ///< index of its first tile size in `pool_`
  const std::vector<int>* order;  ///< an order of the space, or of a start nest
  std::array<std::int64_t, 3> depths;
  double bound, soft, bytes;
};

class Search {
 public:
  Search(const Problem& problem, const Share& machine, std::size_t keep, const SearchOptions& options)
      : model_(problem, machine),
        space_(space(problem, machine)),
        keep_(keep),
        options_(options),
        far_(keep > 1             ? infinite
             : problem.cores == 1 ? 1.1
                                  : 1.25),
        margin_(keep > 1             ? 1.25
                : problem.cores == 1 ? as_fast
                                     : 1) {}

  SearchResult run() {
    const Nest start = heuristic(model_.problem(), model_.machine());
    Ranked first{start, model_.steps(start), model_.price(start)};
    fastest_ = first.cycles;
    if (first.cycles == infinite) first.cycles = first.cost.bound;
    first.nest.on_vector = model_.problem().on_vector;
    first.nest.contexts = space_.contexts;
    walked_.insert(key_of(first.nest));
    found_.best.push_back(first);
    double tiles = 1;
    for (const auto& sizes : space_.tiles) tiles *= static_cast<double>(sizes.size());
    found_.complete = tiles <= static_cast<double>(options_.most_priced) / 8;
    descend(start);
    relax();
    if (found_.complete) {
      first_guess();
      if (!settled()) enumerate();
    } else {
      for (const char* rule : {"gemmini", "pytorchsim"})
        descend(by_strategy(rule, model_.problem(), model_.machine()));  // further start nests
    }
    walk();
    return std::move(found_);
  }

 private:
  std::int64_t trips(const Nest& nest, std::size_t d) const {
    return ceil_div(model_.problem().domain.extents[d], nest.tiles[d]);
  }

  double consider(const Nest& wanted) {
    const Nest nest = packed(model_.problem(), wanted, model_.machine());  // legal packing costs nothing
    if (options_.cancel && (found_.priced & 255) == 0) options_.cancel->poll();
    if (!model_.fits(nest)) return infinite;
    ++found_.priced;
    const Cost cost = model_.price(nest);
    if (cost.bound <= fastest_ * margin_) {
      const auto same = std::find(space_.orders.begin(), space_.orders.end(), nest.order);
      if (same == space_.orders.end()) other_orders_.push_back(nest.order);
      const std::vector<int>& order = same == space_.orders.end() ? other_orders_.back() : *same;
      candidates_.push_back({pooled(nest.tiles), &order, {}, cost.bound, cost.soft, bytes_of(cost)});
      std::copy(nest.depths.begin(), nest.depths.end(), candidates_.back().depths.begin());
    }
    return cost.bound;
  }

  std::size_t pooled(const std::vector<std::int64_t>& tiles) {
    pool_.insert(pool_.end(), tiles.begin(), tiles.end());
    return pool_.size() - tiles.size();
  }

  Nest nest_of(const Candidate& candidate) const {
    const auto begin = pool_.begin() + static_cast<std::ptrdiff_t>(candidate.tiles);
    Nest nest{{begin, begin + static_cast<std::ptrdiff_t>(space_.tiles.size())},
              *candidate.order,
              {candidate.depths.begin(), candidate.depths.end()},
              space_.on_vector,
              {},
              space_.contexts};
    return packed(model_.problem(), std::move(nest), model_.machine());
  }

  /// Orders that differ in loops of several trips; other orders are equivalent.
  std::vector<const std::vector<int>*> distinct_orders(const Nest& nest) const {
    std::vector<const std::vector<int>*> result;
    std::vector<std::uint64_t> seen;
    for (const auto& order : space_.orders) {
      std::uint64_t loops = 0;  // hash of the order of loops
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
    nest.sub.clear();
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

  /// Adds all orders and depths of given tiles whose bounds can still win. A ring that is filled once gets one buffer.
  void try_tiles(Nest nest) {
    nest.depths = {1, 1, 1};
    nest.order = space_.orders[0];
    if (!model_.fits(nest)) return;  // other orders keep at least as many sums on chip
    nest = packed(model_.problem(), std::move(nest), model_.machine());
    if (model_.least_cycles(nest, fastest_ * margin_) > fastest_ * margin_) {  // excludes most tiles, for every order
      ++found_.priced;
      return;
    }
    std::size_t place = SIZE_MAX;
    for (const auto* order : distinct_orders(nest)) {
      if (options_.cancel && (found_.priced & 255) == 0) options_.cancel->poll();
      nest.order = *order;
      Cost cost = model_.price(nest);
      ++found_.priced;
      if (cost.flat > fastest_ * margin_) continue;
      std::uint64_t seen = 0;  // bit set of depths, which are at most 4
      for (const auto& depths : space_.depths) {
        for (std::size_t i = 0; i < 3; ++i) nest.depths[i] = std::min(depths[i], cost.transfers[i]);
        const auto code = (nest.depths[0] - 1) | (nest.depths[1] - 1) << 2 | (nest.depths[2] - 1) << 4;
        if (seen >> code & 1) continue;
        seen |= std::uint64_t{1} << code;
        if (model_.bound(cost, nest.depths) > fastest_ * margin_ || !model_.fits(nest)) continue;
        model_.with_depths(cost, nest.depths);
        if (place == SIZE_MAX) place = pooled(nest.tiles);
        candidates_.push_back(
            {place, order, {nest.depths[0], nest.depths[1], nest.depths[2]}, cost.bound, cost.soft, bytes_of(cost)});
      }
    }
  }

  /// Steepest descent by closed form from nest `start`, in every order.
  void descend(const Nest& start) {
    for (const auto* order : distinct_orders(start)) {
      Nest here = start;
      here.order = *order;
      double now = consider(here);
      for (int round = 0; round < 64 && found_.priced < options_.most_priced; ++round) {
        Nest next = here;
        double best = now;
        for (const Nest& other : space_.neighbours(here, false))
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

  /// Walks the nests that are most promising so far, because a known time shortens the enumeration.
  void first_guess() {
    std::stable_sort(candidates_.begin(), candidates_.end(),
                     [](const Candidate& a, const Candidate& b) { return a.bound < b.bound; });
    for (std::size_t i = 0; i < std::min<std::size_t>(3, candidates_.size()); ++i)
      fastest_ = std::min(fastest_, model_.steps(nest_of(candidates_[i]), i == 0 ? 10000 : 3000, fastest_));
  }

  bool alone() const { return model_.problem().cores == 1; }  ///< no other core uses the memory

  /// Whether the array is busy almost all the time, so that no nest is faster beyond the model's resolution.
  bool settled() const {
    constexpr double alike = 1.005;
    return keep_ == 1 && alone() && fastest_ <= alike * peak_;
  }

  /// Sets lower bounds for all nests: every byte moves once at full bandwidth, every product runs at the array's peak.
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
    peak_ = products / peak;
    floor_ = std::max(floor_, peak_);
  }

  /// Walks candidates by ascending `key` while their bounds and the budget permit.
  void walk_by(double Candidate::* key, double share) {
    const auto keep = static_cast<double>(keep_);
    const double most_walked = share * std::max(static_cast<double>(options_.most_walked), keep);
    const double most_steps = share * std::max(static_cast<double>(options_.most_steps), 1000 * keep);
    std::vector<std::pair<double, std::size_t>> heap;  // ties in order of index
    for (std::size_t i = 0; i < candidates_.size(); ++i)
      if (candidates_[i].bound <= fastest_) heap.push_back({candidates_[i].*key, i});
    std::make_heap(heap.begin(), heap.end(), std::greater<>{});
    for (auto end = heap.end(); end != heap.begin(); --end) {
      if (static_cast<double>(found_.walked) >= most_walked || steps_ >= most_steps) return;
      std::pop_heap(heap.begin(), end, std::greater<>{});
      const Candidate& candidate = candidates_[std::prev(end)->second];
      if (candidate.bound > fastest_ || steps_ + tile_count(candidate) > most_steps) continue;
      Ranked ranked{nest_of(candidate), 0, {}};
      if (!walked_.insert(key_of(ranked.nest)).second) continue;
      if (options_.cancel) options_.cancel->poll();
      steps_ += tile_count(candidate);
      ++found_.walked;
      ranked.cost = model_.price(ranked.nest);
      ranked.cycles = model_.steps(ranked.nest, 20000, far_ * fastest_);
      if (ranked.cycles == infinite) continue;
      if (keep_ == 1) fastest_ = std::min(fastest_, ranked.cycles);
      found_.best.push_back(std::move(ranked));
    }
  }

  double tile_count(const Candidate& candidate) const {
    double count = 1;
    for (std::size_t d = 0; d < space_.tiles.size(); ++d)
      count *= static_cast<double>(ceil_div(model_.problem().domain.extents[d], pool_[candidate.tiles + d]));
    return count;
  }

  /// Moves from the best nest to adjacent nests while the walk finds faster ones.
  void improve() {
    constexpr int most_rounds = 6;
    for (int round = 0; round < most_rounds; ++round) {
      const auto faster = [](const Ranked& a, const Ranked& b) { return a.cycles < b.cycles; };
      const Ranked best = *std::min_element(found_.best.begin(), found_.best.end(), faster);
      bool moved = false;
      for (const Nest& other : space_.neighbours(best.nest, false)) {
        if (options_.cancel) options_.cancel->poll();
        const Nest nest = packed(model_.problem(), other, model_.machine());
        if (!model_.fits(nest)) continue;
        const Cost cost = model_.price(nest);
        ++found_.priced;
        if (cost.bound >= best.cycles) continue;
        ++found_.walked;
        const double cycles = model_.steps(nest, 6000, best.cycles);
        if (cycles >= best.cycles) continue;
        found_.best.push_back({nest, cycles, cost});
        fastest_ = std::min(fastest_, cycles);
        moved = true;
      }
      if (!moved) return;
    }
  }

  /// Replaces the best nests by nests with sub-tiles if these are faster beyond the model's error.
  void cut_best() {
    constexpr double worth = 0.99;
    constexpr int most_walked = 32;  // limit if only the best nest is requested
    const std::size_t tried = keep_ == 1 ? found_.best.size() : std::min(found_.best.size(), 2 + keep_ / 8);
    std::vector<Ranked> faster;
    double least = found_.best.front().cycles;
    int walked = 0;
    for (std::size_t i = 0; i < tried; ++i)
      for (std::size_t choice = 1; choice < space_.pieces.size(); ++choice) {
        if (options_.cancel) options_.cancel->poll();
        const Ranked& whole = found_.best[i];
        Ranked cut{space_.cut(whole.nest, choice), 0, {}};
        cut.nest = packed(model_.problem(), std::move(cut.nest), model_.machine());
        if (cut.nest.sub.empty() || !walked_.insert(key_of(cut.nest)).second ||
            !legal(model_.problem(), cut.nest, model_.machine()).legal)
          continue;
        cut.cost = model_.price(cut.nest);
        ++found_.priced;
        const double limit = worth * (keep_ == 1 ? least : whole.cycles);
        if (cut.cost.bound >= limit || (keep_ == 1 && walked == most_walked)) continue;
        ++found_.walked;
        ++walked;
        cut.cycles = model_.steps(cut.nest, 6000, limit);
        if (cut.cycles >= limit) continue;
        least = std::min(least, cut.cycles);
        faster.push_back(std::move(cut));
      }
    if (faster.empty()) return;
    const double whole = found_.best.front().cycles;
    found_.best.insert(found_.best.end(), faster.begin(), faster.end());
    std::stable_sort(found_.best.begin(), found_.best.end(),
                     [](const Ranked& a, const Ranked& b) { return a.cycles < b.cycles; });
    if (found_.best.front().cycles < whole) found_.lower_bound = std::min(found_.lower_bound, floor_);
  }

  static double bytes_of(const Cost& cost) { return static_cast<double>(cost.total_bytes()); }

  /// Candidates with the fewest bytes that may be about as fast as the best nest.
  std::vector<Ranked> of_few_bytes() {
    constexpr std::ptrdiff_t most = 48;
    const double limit = as_fast * found_.best.front().cycles, bytes = bytes_of(found_.best.front().cost);
    std::erase_if(candidates_, [&](const Candidate& c) { return c.bound > limit || c.bytes > bytes; });
    const auto end = candidates_.begin() + std::min(most, std::ssize(candidates_));
    std::partial_sort(candidates_.begin(), end, candidates_.end(),
                      [](const Candidate& a, const Candidate& b) { return a.bytes < b.bytes; });
    std::vector<Ranked> few;
    for (auto candidate = candidates_.begin(); candidate != end; ++candidate) {
      few.push_back({nest_of(*candidate), 0, {}});
      few.back().cost = model_.price(few.back().nest);
    }
    return few;
  }

  /// Chooses among nests of about equal time. If memory limits the kernel, fast nests already have few bytes.
  void choose() {
    const Cost& cost = found_.best.front().cost;
    if (alone() && cost.memory < cost.compute)
      return prefer_few_bytes(model_, space_, found_.best, of_few_bytes(), options_.cancel);
    prefer_fewer_bytes(found_.best);
    prefer_in_crowd(model_, found_.best, options_.cancel);
  }

  /// The lowest bound of candidates that were not walked.
  double unexplored() const {
    double least = infinite;
    for (const Candidate& candidate : candidates_)
      if (candidate.bound < std::min(fastest_, least) && !walked_.count(key_of(nest_of(candidate))))
        least = candidate.bound;
    return least;
  }

  /// Walks candidates first by `soft`, to find a good nest, then by bound, to prove that no nest is better.
  void walk() {
    walk_by(&Candidate::soft, keep_ == 1 ? 0.7 : 1);
    walk_by(&Candidate::bound, 1);
    for (const Ranked& ranked : found_.best) fastest_ = std::min(fastest_, ranked.cycles);
    // If the bound leaves a gap, nests that were not walked may be better. Without multicast, `prefer_in_crowd`
    // considers several nests.
    constexpr double close = 1.05;
    if (settled())
      found_.complete = false;
    else if (!found_.complete || (model_.problem().multicast && fastest_ > close * unexplored()))
      improve();
    std::stable_sort(found_.best.begin(), found_.best.end(),
                     [](const Ranked& a, const Ranked& b) { return a.cycles < b.cycles; });
    found_.lower_bound = std::min(fastest_, found_.complete ? unexplored() : floor_);
    cut_best();
    if (keep_ == 1) choose();
    if (found_.best.size() > std::max<std::size_t>(1, keep_)) found_.best.resize(std::max<std::size_t>(1, keep_));
  }

  CostModel model_;
  Space space_;
  std::size_t keep_;
  SearchOptions options_;
  std::vector<Candidate> candidates_;
  std::vector<std::int64_t> pool_;            ///< tile sizes of candidates
  std::list<std::vector<int>> other_orders_;  ///< orders of candidates that the space does not contain
  std::set<std::vector<std::int64_t>> walked_;
  SearchResult found_;
  double fastest_ = 0, steps_ = 0;
  double floor_ = 0, peak_ = 0;  ///< lower bounds: for all nests; for the array's products
  double far_ = 1;               ///< a walk stops above this multiple of the best time
  double margin_ = 1;            ///< bounds above this multiple of the best time exclude a nest
};

}  // namespace

SearchResult search(const Problem& problem, const Share& machine, std::size_t keep, const SearchOptions& options) {
  return Search(problem, machine, keep, options).run();
}

}  // namespace tilesim::mapping
