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

/// The tile sizes that a space contains.
enum class Sizes : std::uint8_t {
  aligned,   ///< multiples of registers and arrays, equal pieces, as in good nests
  all,       ///< the smallest tile per trip count: no other size moves fewer bytes
  divisors,  ///< divisors of the extent only
};
Sizes parse_sizes(const std::string& text);

/// A Cartesian product of choices: a tile size per dim, an order, a depth per operand, and sub-tiles. Some combinations
/// are illegal.
struct Space {
  std::vector<std::vector<std::int64_t>> tiles;  ///< per dim, ascending
  std::vector<std::vector<int>> orders;
  std::vector<std::vector<std::int64_t>> depths;
  std::vector<std::vector<std::int64_t>> pieces;  ///< number of sub-tiles per dim; the first choice: whole tiles
  std::vector<std::int64_t> units;                ///< per dim: pieces are whole registers or arrays
  std::vector<std::int64_t> extents;
  std::vector<int> packs{-1};  ///< dim packed over the array's rows; the first choice: none
  bool on_vector = false;
  std::int64_t contexts = 1;

  double count() const;  ///< number of combinations, legal or not
  /// The combination with this number, in [0, count).
  Nest at(std::uint64_t index) const;
  /// A random combination. It depends only on the seed, on all platforms.
  Nest sample(std::uint64_t seed) const;
  /// The nest with the given choice of sub-tiles.
  Nest cut(Nest nest, std::size_t choice) const;
  /// Nests that differ in one choice: the next tile size of a dim, another order or other depths; with `all_fields`,
  /// also other sub-tiles or packing. A changed tile has no sub-tiles.
  std::vector<Nest> neighbours(const Nest& nest, bool all_fields = true) const;
};
Space space(const Problem& problem, const Share& machine, Sizes sizes = Sizes::aligned);

struct SearchOptions {
  std::int64_t most_priced = 60000;  ///< limit on closed forms; larger spaces are searched by descent
  std::int64_t most_walked = 96;     ///< number of nests whose tiles are walked
  std::int64_t most_steps = 16000;   ///< total number of tiles walked
  CancelToken* cancel = nullptr;
};

/// A nest with its estimate.
struct Ranked {
  Nest nest;
  double cycles = 0;  ///< from the walk over tiles; from the closed form if a nest has too many tiles
  Cost cost;
};

struct SearchResult {
  std::vector<Ranked> best;  ///< the fastest first
  double lower_bound = 0;    ///< by this model, no nest in the space is faster; excludes nests with sub-tiles
  std::int64_t priced = 0, walked = 0;
  bool complete = false;  ///< every nest of the space was priced or excluded by a bound
  double gap() const { return best.empty() || lower_bound <= 0 ? 0 : best[0].cycles / lower_bound - 1; }
};

/// The fastest nests by the cost model, never slower than the heuristic. Throws UserError if even unit tiles do not
/// fit.
SearchResult search(const Problem& problem, const Share& machine, std::size_t keep = 1,
                    const SearchOptions& options = {});

/// Concatenates groups of dims.
std::vector<int> concatenate(std::initializer_list<const std::vector<int>*> groups);

/// Names of strategies: "profile", "heuristic", "cost", "gemmini", "pytorchsim". Here "profile" equals "cost"; the
/// compiler consults the machine's lowering profile first.
const std::vector<std::string>& strategies();
/// A legal nest by the named rule.
Nest by_strategy(const std::string& strategy, const Problem& problem, const Share& machine);
/// The nest by the machine's lowering profile; empty if the profile has no rule for the problem.
std::optional<Nest> profile_nest(const Share& machine, const Problem& problem, bool convolution);
/// Improves a nest by a few steps of local search; the result is not slower by the model.
Nest refined(const Problem& problem, const Share& machine, const Nest& start);

/// Minimal off-chip traffic of c[m, n] += a[m, k] * b[k, n] with one tile of each matrix in a buffer of `words`
/// elements.
struct LeastTraffic {
  std::int64_t words = 0;  ///< words moved; -1: not even unit tiles fit
  std::int64_t tiles[3] = {0, 0, 0};
  std::string order;  ///< loops, outer to inner: "mnk"
};
LeastTraffic least_traffic(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t words, Sizes sizes);

}  // namespace tilesim::mapping
