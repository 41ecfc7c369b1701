// The space of all nests of a problem, and the searches over it.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "tilesim/base/cancel.hpp"
#include "tilesim/mapping/cost.hpp"

namespace tilesim::mapping {

/// Which tile sizes a space contains.
enum class Sizes : std::uint8_t {
  aligned,   ///< multiples of registers and arrays, equal pieces; good nests have them
  all,       ///< per trip count the smallest tile: no other size moves fewer bytes
  divisors,  ///< divisors of the extent
};
Sizes parse_sizes(const std::string& text);

/// The product of choices: a tile size per dim, an order, a depth per operand, and sub-tiles. Some combinations are
/// illegal.
struct Space {
  std::vector<std::vector<std::int64_t>> tiles;  ///< per dim, ascending
  std::vector<std::vector<int>> orders;
  std::vector<std::vector<std::int64_t>> depths;
  std::vector<std::vector<std::int64_t>> pieces;  ///< number of sub-tiles per dim; the first choice has none
  std::vector<std::int64_t> units;                ///< per dim: pieces are multiples of this (registers or arrays)
  std::vector<std::int64_t> extents;
  std::vector<int> packs{-1};  ///< dim packed over the array's rows; the first choice packs none
  bool on_vector = false;
  std::int64_t contexts = 1;

  double count() const;  ///< number of combinations, legal or not
  /// The combination with number `index` in [0, count).
  Nest at(std::uint64_t index) const;
  /// A random combination, a function of the seed on all platforms.
  Nest sample(std::uint64_t seed) const;
  /// The nest with choice number `choice` of sub-tiles.
  Nest cut(Nest nest, std::size_t choice) const;
  /// Nests that differ in one choice: the next tile size of a dim, another order or other depths; with `all_fields`
  /// also other sub-tiles or packing. If the tile changes, the sub-tiles are dropped.
  std::vector<Nest> neighbours(const Nest& nest, bool all_fields = true) const;
};
Space space(const Problem& problem, const Share& machine, Sizes sizes = Sizes::aligned);

struct SearchOptions {
  std::int64_t most_priced = 60000;  ///< limit on closed forms; a larger space is searched by descent
  std::int64_t most_walked = 96;     ///< number of nests whose tiles are walked
  std::int64_t most_steps = 16000;   ///< number of tiles walked in total
  CancelToken* cancel = nullptr;
};

/// A nest with its estimated cycles.
struct Ranked {
  Nest nest;
  double cycles = 0;  ///< from the walk over tiles, or from the closed form if there are too many tiles
  Cost cost;
};

struct SearchResult {
  std::vector<Ranked> best;  ///< the fastest first
  double lower_bound = 0;    ///< by this model, no nest without sub-tiles is faster
  std::int64_t priced = 0, walked = 0;
  bool complete = false;  ///< whether every nest of the space was priced, or excluded by a bound
  double gap() const { return best.empty() || lower_bound <= 0 ? 0 : best[0].cycles / lower_bound - 1; }
};

/// The fastest nests by the cost model, never slower than the heuristic. Throws UserError if even tiles of one element
/// do not fit.
SearchResult search(const Problem& problem, const Share& machine, std::size_t keep = 1,
                    const SearchOptions& options = {});

/// Concatenates groups of dims.
std::vector<int> concatenate(std::initializer_list<const std::vector<int>*> groups);

/// Names of strategies: "profile", "heuristic", "cost", "gemmini", "pytorchsim". "profile" equals "cost" here, because
/// the compiler consults the machine's lowering profile before.
const std::vector<std::string>& strategies();
/// A legal nest by the rule with this name.
Nest by_strategy(const std::string& strategy, const Problem& problem, const Share& machine);
/// The nest by the machine's lowering profile; empty if the profile has no rule for the problem.
std::optional<Nest> profile_nest(const Share& machine, const Problem& problem, bool convolution);
/// Improves a nest by a few steps of local search. By the model, the result is not slower.
Nest refined(const Problem& problem, const Share& machine, const Nest& start);

/// Least off-chip traffic of c[m, n] += a[m, k] * b[k, n], if a buffer of `words` elements has one tile of each matrix.
struct LeastTraffic {
  std::int64_t words = 0;  ///< words that move; -1: even tiles of one element do not fit
  std::int64_t tiles[3] = {0, 0, 0};
  std::string order;  ///< loops, outer to inner: "mnk"
};
LeastTraffic least_traffic(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t words, Sizes sizes);

}  // namespace tilesim::mapping
