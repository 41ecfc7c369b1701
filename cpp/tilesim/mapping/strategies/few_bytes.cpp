#include "tilesim/mapping/strategies/few_bytes.hpp"

#include <algorithm>
#include <cmath>
#include <compare>
#include <limits>
#include <utility>

#include "tilesim/base/shape.hpp"

namespace tilesim::mapping {

namespace {

/// Nests that keep a block of sums on chip during the contraction, the order with the least traffic: 2 / sqrt(S) words
/// per multiply-add with S words on chip. A large block leaves no space for a second one or for full tiles of the
/// epilogue's operands, so the epilogue runs in pieces.
class Blocks {
 public:
  Blocks(CostModel& model, const Space& space, const Nest& start, double limit)
      : model_(model),
        problem_(model.problem()),
        space_(space),
        start_(start),
        limit_(limit),
        own_(own_dims(problem_)) {
    for (std::size_t operand = 0; operand < 3; ++operand) bytes_[operand] = whole_bytes(operand);
    if (problem_.siblings < 0) return;  // the epilogue may combine several sums into one result
    bytes_[2] = 0;
    for (const Problem::Output& output : problem_.outputs)
      bytes_[2] += static_cast<double>(element_count(output.shape) * bits(output.dtype)) / 8;
  }

  /// Legal nests that move fewer than `bytes` bytes and whose closed-form bound is within the limit.
  std::vector<Ranked> few(std::int64_t bytes) {
    // Tiles of sibling products need more scratchpad, so fewer of the candidates with the least traffic fit.
    const std::size_t most_tried = problem_.siblings < 0 ? 96 : 1024;
    constexpr double far = 1.1;  // multiple of the least bytes: nests with more bytes may be faster
    if (problem_.k_dims.empty() || problem_.on_vector) return {};
    enumerate();
    std::stable_sort(blocks_.begin(), blocks_.end(), [](const Block& a, const Block& b) { return a.bytes < b.bytes; });
    std::int64_t least = bytes;
    for (std::size_t i = 0; i < std::min(most_tried, blocks_.size()); ++i) {
      const double most = std::min(static_cast<double>(bytes), far * static_cast<double>(least));
      if (blocks_[i].bytes + bytes_[2] >= most) break;
      fill(blocks_[i]);
      if (!found_.empty()) least = std::min(least, found_.back().cost.total_bytes());
    }
    std::erase_if(found_, [&](const Ranked& ranked) { return ranked.cost.total_bytes() >= bytes; });
    return std::move(found_);
  }

 private:
  struct Block {
    std::vector<std::int64_t> tiles;
    double bytes = 0;            ///< lower bound for both operands
    bool through = false;        ///< one tile covers the contraction
    bool columns_first = false;  ///< column loops enclose row loops
  };

  std::int64_t extent(int dim) const { return problem_.domain.extents[static_cast<std::size_t>(dim)]; }

  double whole_bytes(std::size_t operand) const {
    double elements = 1;
    for (const AxisAccess& axis : access_of(problem_, operand).axes) {
      std::int64_t used = axis.window;
      for (const AxisAccess::Term& term : axis.terms) used += std::abs(term.coefficient) * (extent(term.dim) - 1);
      elements *= static_cast<double>(used);
    }
    return elements * bits(problem_.memory_dtypes[operand]) / 8;
  }

  double trips(const std::vector<int>& dims, const std::vector<std::int64_t>& tiles) const {
    double count = 1;
    for (int dim : dims) count *= static_cast<double>(ceil_div(extent(dim), tiles[static_cast<std::size_t>(dim)]));
    return count;
  }

  double elements(std::uint64_t dims, const std::vector<std::int64_t>& tiles) const {
    double count = 1;
    for (std::size_t d = 0; d < tiles.size(); ++d)
      if (dims >> d & 1) count *= static_cast<double>(tiles[d]);
    return count;
  }

  void add(const std::vector<std::int64_t>& tiles) {
    const ScratchpadSpec& memory = model_.machine().core.scratchpad;
    const double sums = elements(own_[2], tiles) * bits(problem_.dtypes[2]) / 8;
    const bool apart = memory.accumulator_bytes > 0;
    const auto room = static_cast<double>(memory.bytes);
    if (sums > (apart ? static_cast<double>(memory.accumulator_bytes) : room)) return;
    const double rows = trips(problem_.m_dims, tiles), columns = trips(problem_.n_dims, tiles);
    blocks_.push_back({tiles, bytes_[0] * columns + bytes_[1] * rows, false, false});
    std::vector<std::int64_t> deep = tiles;
    for (int dim : problem_.k_dims) deep[static_cast<std::size_t>(dim)] = extent(dim);
    double operands = 0;
    for (std::size_t operand = 0; operand < 2; ++operand)
      operands += elements(own_[operand], deep) * bits(problem_.dtypes[operand]) / 8;
    if (operands + (apart ? 0 : sums) > room) return;
    const double kept_rows = bytes_[0] + bytes_[1] * rows, kept_columns = bytes_[0] * columns + bytes_[1];
    blocks_.push_back({std::move(deep), std::min(kept_rows, kept_columns), true, kept_columns < kept_rows});
  }

  /// Lists all sizes of rows and columns; batches keep their size, contraction tiles are minimal.
  void enumerate() {
    constexpr double most_blocks = 1 << 14;
    std::vector<int> dims = concatenate({&problem_.m_dims, &problem_.n_dims});
    std::vector<std::int64_t> tiles = start_.tiles;
    for (std::size_t d = 0; d < tiles.size(); ++d) tiles[d] = std::min(tiles[d], problem_.domain.extents[d]);
    for (int dim : problem_.k_dims) tiles[static_cast<std::size_t>(dim)] = extent(dim);
    std::vector<std::vector<std::int64_t>> sizes;
    double count = 1;
    for (int dim : dims) {
      sizes.push_back(space_.tiles[static_cast<std::size_t>(dim)]);
      count *= static_cast<double>(sizes.back().size());
    }
    if (count > most_blocks) return;
    std::vector<std::size_t> at(dims.size(), 0);
    while (true) {
      for (std::size_t i = 0; i < dims.size(); ++i) tiles[static_cast<std::size_t>(dims[i])] = sizes[i][at[i]];
      add(tiles);
      std::size_t i = 0;
      for (; i < dims.size(); ++i) {
        if (++at[i] < sizes[i].size()) break;
        at[i] = 0;
      }
      if (i == dims.size()) return;
    }
  }

  /// Tries the longest contraction tiles with which the block fits, with the fewest pieces that are fast enough.
  void fill(const Block& block) {
    constexpr int most_depths = 2;  // longer tiles move fewer bursts, shorter ones permit larger pieces
    Nest nest = start_;
    nest.sub.clear();
    nest.pack = -1;
    nest.unfold = 0;
    nest.tiles = block.tiles;
    const std::vector<int>&b = problem_.batch_dims, &m = problem_.m_dims, &n = problem_.n_dims, &k = problem_.k_dims;
    nest.order = block.columns_first ? concatenate({&b, &n, &m, &k}) : concatenate({&b, &m, &n, &k});
    int found = take(nest) ? 1 : 0;
    if (block.through) return;
    // Split channels first, because all positions of a window read the same elements.
    for (auto dim = k.rbegin(); dim != k.rend() && found < most_depths; ++dim) {
      const auto d = static_cast<std::size_t>(*dim);
      const std::vector<std::int64_t>& sizes = space_.tiles[d];
      for (auto size = std::next(sizes.rbegin()); size < sizes.rend() && found < most_depths; ++size) {
        if (*size < std::min(space_.units[d], extent(*dim))) break;
        nest.tiles[d] = *size;
        found += take(nest) ? 1 : 0;
      }
      if (dim == k.rbegin()) nest.tiles[d] = extent(*dim);
    }
  }

  /// Adds the nest with the first choice of buffers and pieces that fits and is fast enough.
  bool take(const Nest& wanted) {
    static const std::vector<std::vector<std::int64_t>> some{{2, 2, 2}, {2, 2, 1}, {1, 2, 1}, {2, 1, 1}};
    std::vector<Nest> ways = cuts(wanted);
    for (Nest& way : ways) way = packed(problem_, std::move(way), model_.machine());
    for (const std::vector<std::int64_t>& depths : some)
      for (Nest nest : ways) {
        const LoopPlan loops = plan_loops(problem_, nest, own_);
        for (std::size_t i = 0; i < 3; ++i) nest.depths[i] = std::min(depths[i], loops.fetches(i, own_).transfers);
        if (!model_.fits(nest)) continue;
        if (!nest.sub.empty() && !legal(problem_, nest, model_.machine()).legal) continue;
        Ranked ranked{nest, 0, model_.price(nest)};
        if (ranked.cost.bound > limit_) continue;
        found_.push_back(std::move(ranked));
        return true;
      }
    return false;
  }

  /// The nest without pieces; with its rows or columns in pieces; and, if the block has all rows or all columns, with
  /// tiles of these inside the contraction loops.
  std::vector<Nest> cuts(const Nest& nest) const {
    std::vector<Nest> result{nest};
    for (std::int64_t count : {2, 4, 8, 16, 32})
      for (const bool rows : {true, false}) {
        const std::vector<int>& dims = rows ? problem_.m_dims : problem_.n_dims;
        const auto longer = [&](int dim) {
          return nest.tiles[static_cast<std::size_t>(dim)] > 1 && dim != problem_.siblings;
        };
        const auto first = std::find_if(dims.begin(), dims.end(), longer);
        if (first == dims.end() || count > nest.tiles[static_cast<std::size_t>(*first)]) continue;
        std::vector<std::int64_t> pieces(nest.tiles.size(), 1);
        pieces[static_cast<std::size_t>(*first)] = count;
        Nest cut = mapping::in_pieces(problem_.domain.extents, nest, pieces, space_.units);
        if (cut.sub.empty()) continue;
        if (!problem_.multicast) result.push_back(cut);
        const std::vector<int>&b = problem_.batch_dims, &m = problem_.m_dims, &n = problem_.n_dims,
              &k = problem_.k_dims;
        cut.order = rows ? concatenate({&b, &n, &k, &m}) : concatenate({&b, &m, &k, &n});
        if (trips(dims, nest.tiles) > 1 || trips(k, nest.tiles) == 1) continue;
        if (std::find(space_.orders.begin(), space_.orders.end(), cut.order) == space_.orders.end()) continue;
        cut.tiles = std::move(cut.sub);
        cut.sub.clear();
        result.push_back(std::move(cut));
      }
    return result;
  }

  CostModel& model_;
  const Problem& problem_;
  const Space& space_;
  const Nest& start_;
  double limit_;
  OwnDims own_;
  double bytes_[3] = {0, 0, 0};  ///< bytes of each operand and of the result
  std::vector<Block> blocks_;
  std::vector<Ranked> found_;
};

/// Secondary cost of a nest: bytes moved, plus bytes of values that its tiles displace from the scratchpad (each is
/// then written and read once more); then transfers.
struct Weight {
  double bytes = 0;
  std::int64_t transfers = 0;
  auto operator<=>(const Weight&) const = default;
};

Weight weight_of(const CostModel& model, const Ranked& ranked) {
  const Cost& cost = ranked.cost;
  const std::int64_t held = scratchpad_bytes(model.problem(), ranked.nest, model.machine());
  return {static_cast<double>(cost.total_bytes() + 2 * held),
          cost.transfers[0] + cost.transfers[1] + cost.transfers[2]};
}

/// Cycles of nests by a walk over tiles. For a long nest, walks a part and multiplies the closed form by the part's
/// ratio of walk to closed form.
class Timer {
 public:
  explicit Timer(CostModel& model) : model_(model) {}

  double cycles(const Ranked& ranked) {
    const double walked = model_.steps(ranked.nest, most_steps);
    return std::isinf(walked) ? of_part(ranked) : walked;
  }

 private:
  static constexpr std::int64_t most_steps = 5000;

  static double parts_of(const Problem& problem, const Nest& nest) {
    double count = 1;
    for (std::size_t d = 0; d < nest.tiles.size(); ++d) {
      const std::int64_t pieces = ceil_div(tile_of(problem, nest, d), sub_of(problem, nest, d));
      count *= static_cast<double>(ceil_div(problem.domain.extents[d], nest.tiles[d]) * pieces);
    }
    return count;
  }

  /// Cycles of a long nest, scaled from a problem with a few trips of each loop.
  double of_part(const Ranked& ranked) const {
    Problem part = model_.problem();
    const auto shorten = [&](bool contracted, std::int64_t trips) {
      for (int dim : ranked.nest.order) {
        const auto d = static_cast<std::size_t>(dim);
        const std::int64_t most = trips * ranked.nest.tiles[d];
        if (part.domain.reduction[d] == contracted && part.domain.extents[d] > most &&
            parts_of(part, ranked.nest) > static_cast<double>(most_steps))
          part.domain.extents[d] = most;
      }
    };
    shorten(false, 3);
    shorten(false, 2);
    shorten(true, 16);
    shorten(true, 4);
    CostModel model(part, model_.machine());
    return ranked.cost.bound * model.steps(ranked.nest, most_steps) / model.price(ranked.nest).bound;
  }

  CostModel& model_;
};

}  // namespace

void prefer_few_bytes(CostModel& model, const Space& space, std::vector<Ranked>& best, std::vector<Ranked> others,
                      CancelToken* cancel) {
  constexpr int most_walked = 8;
  Timer timer(model);
  const double timed = timer.cycles(best.front()), fastest = std::isinf(timed) ? best.front().cost.bound : timed;
  // One kernel of siblings replaces several kernels, so a bound on its own time is too strict: the score decides
  // whether saved bytes are worth the time.
  constexpr double as_fast_as_several = 1.05;
  const double limit = (model.problem().siblings < 0 ? as_fast : as_fast_as_several) * fastest;
  const auto score = [&](const Ranked& ranked, double cycles) {
    const double moved = static_cast<double>(std::max<std::int64_t>(1, ranked.cost.total_bytes()));
    return cycles + price_of_memory * ranked.cost.memory * weight_of(model, ranked).bytes / moved;
  };
  others.insert(others.end(), std::next(best.begin()), best.end());
  Blocks blocks(model, space, best.front().nest, limit);
  for (Ranked& block : blocks.few(best.front().cost.total_bytes())) others.push_back(std::move(block));
  std::erase_if(others, [&](const Ranked& other) { return other.cost.bound > limit; });
  std::vector<std::pair<Weight, const Ranked*>> lightest;
  for (const Ranked& other : others) lightest.emplace_back(weight_of(model, other), &other);
  std::stable_sort(lightest.begin(), lightest.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  double least = score(best.front(), fastest);
  const Ranked* chosen = nullptr;
  int walked = 0;
  for (const auto& [weight, other] : lightest) {
    if (cancel) cancel->poll();
    if (walked == most_walked || !(weight < weight_of(model, best.front()))) break;
    if (score(*other, std::max(fastest, other->cost.bound)) >= least) continue;
    ++walked;
    const double cycles = timer.cycles(*other);
    if (cycles > limit || score(*other, cycles) >= least) continue;
    least = score(*other, cycles);
    chosen = other;
  }
  if (!chosen) return;
  Ranked first = *chosen;
  first.cycles = model.steps(first.nest);
  if (std::isinf(first.cycles)) first.cycles = first.cost.bound;
  best.insert(best.begin(), std::move(first));
}

}  // namespace tilesim::mapping
