#include "tilesim/mapping/space.hpp"

#include <algorithm>
#include <set>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"

namespace tilesim::mapping {

namespace {

std::vector<std::int64_t> divisors_of(std::int64_t extent) {
  std::set<std::int64_t> found;
  for (std::int64_t d = 1; d * d <= extent; ++d)
    if (extent % d == 0) {
      found.insert(d);
      found.insert(extent / d);
    }
  return {found.begin(), found.end()};
}

/// The smallest tile size for each possible number of trips.
std::vector<std::int64_t> all_sizes(std::int64_t extent) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t tile = extent; tile >= 1;) {
    const std::int64_t trips = ceil_div(extent, tile), smallest = ceil_div(extent, trips);
    sizes.push_back(smallest);
    tile = smallest - 1;
  }
  std::reverse(sizes.begin(), sizes.end());
  return sizes;
}

/// Equal pieces rounded up to multiples of the unit; doublings of the unit; half of an extent below four units; and
/// quarters of the unit, for small memories.
std::vector<std::int64_t> aligned_sizes(std::int64_t extent, std::int64_t unit) {
  std::set<std::int64_t> found{extent};
  for (std::int64_t pieces : {2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 64})
    if (const std::int64_t size = round_up(ceil_div(extent, pieces), unit); size < extent) found.insert(size);
  for (std::int64_t size = unit; size < extent; size *= 2) found.insert(size);
  if (extent > unit && extent < 4 * unit) found.insert(ceil_div(extent, 2));
  for (std::int64_t size = unit; size >= 1; size /= 4)
    if (size < extent) found.insert(size);
  return {found.begin(), found.end()};
}

/// Choices of sub-tiles: none; or two or four pieces of the longest contracted, row or column dim.
std::vector<std::vector<std::int64_t>> cuts(const Problem& problem) {
  const std::size_t dims = problem.domain.extents.size();
  std::vector<std::vector<std::int64_t>> result{std::vector<std::int64_t>(dims, 1)};
  if (problem.on_vector || problem.multicast) return result;  // sent tiles are not split
  for (const auto* group : {&problem.k_dims, &problem.m_dims, &problem.n_dims}) {
    int longest = -1;
    for (int dim : *group)
      if (dim != problem.siblings && (longest < 0 || problem.domain.extents[static_cast<std::size_t>(dim)] >=
                                                         problem.domain.extents[static_cast<std::size_t>(longest)]))
        longest = dim;
    if (longest < 0 || problem.domain.extents[static_cast<std::size_t>(longest)] < 2) continue;
    for (std::int64_t count : {2, 4}) {
      result.emplace_back(dims, 1);
      result.back()[static_cast<std::size_t>(longest)] = count;
    }
  }
  return result;
}

std::uint64_t mix(std::uint64_t& state) {  // splitmix64: Steele, Lea, Flood, OOPSLA 2014
  std::uint64_t z = (state += 0x9E3779B97F4A7C15ULL);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

}  // namespace

std::vector<int> concatenate(std::initializer_list<const std::vector<int>*> groups) {
  std::vector<int> all;
  for (const auto* group : groups) all.insert(all.end(), group->begin(), group->end());
  return all;
}

Sizes parse_sizes(const std::string& text) {
  const std::vector<std::string> known{"aligned", "all", "divisors"};
  for (std::size_t i = 0; i < known.size(); ++i)
    if (text == known[i]) return static_cast<Sizes>(i);
  throw UserError({"unknown choice of tile sizes", {}, "'" + text + "'", join(known), nearest(text, known)});
}

double Space::count() const {
  double total = static_cast<double>(orders.size()) * static_cast<double>(depths.size()) *
                 static_cast<double>(pieces.size()) * static_cast<double>(packs.size());
  for (const auto& sizes : tiles) total *= static_cast<double>(sizes.size());
  return total;
}

Nest Space::at(std::uint64_t index) const {
  Nest nest;
  nest.on_vector = on_vector;
  nest.contexts = contexts;
  const auto take = [&](const auto& choices) -> const auto& {
    const auto& choice = choices[index % choices.size()];
    index /= choices.size();
    return choice;
  };
  nest.depths = take(depths);
  nest.order = take(orders);
  for (const auto& sizes : tiles) nest.tiles.push_back(take(sizes));
  const std::size_t choice = index % pieces.size();
  nest.pack = packs[index / pieces.size() % packs.size()];
  return cut(std::move(nest), choice);
}

Nest Space::cut(Nest nest, std::size_t choice) const {
  return in_pieces(extents, std::move(nest), pieces[choice], units);
}

Nest Space::sample(std::uint64_t seed) const {
  std::uint64_t state = seed;
  Nest nest;
  nest.on_vector = on_vector;
  nest.contexts = contexts;
  nest.depths = depths[mix(state) % depths.size()];
  nest.order = orders[mix(state) % orders.size()];
  for (const auto& sizes : tiles) nest.tiles.push_back(sizes[mix(state) % sizes.size()]);
  nest = cut(std::move(nest), mix(state) % pieces.size());
  if (packs.size() > 1) nest.pack = packs[mix(state) % packs.size()];
  return nest;
}

std::vector<Nest> Space::neighbours(const Nest& nest, bool all_fields) const {
  std::vector<Nest> result;
  for (std::size_t d = 0; d < tiles.size(); ++d) {
    const auto above = std::upper_bound(tiles[d].begin(), tiles[d].end(), nest.tiles[d]);
    auto below = std::lower_bound(tiles[d].begin(), tiles[d].end(), nest.tiles[d]);
    Nest other = nest;
    other.sub.clear();
    if (above != tiles[d].end()) {
      other.tiles[d] = *above;
      result.push_back(other);
    }
    if (below != tiles[d].begin()) {
      other.tiles[d] = *--below;
      result.push_back(other);
    }
  }
  for (const auto& order : orders)
    if (order != nest.order) {
      result.push_back(nest);
      result.back().order = order;
    }
  for (const auto& depth : depths)
    if (depth != nest.depths) {
      result.push_back(nest);
      result.back().depths = depth;
    }
  for (std::size_t choice = 0; all_fields && choice < pieces.size(); ++choice)
    if (Nest other = cut(nest, choice); other.sub != nest.sub) result.push_back(std::move(other));
  for (std::size_t choice = 0; all_fields && choice < packs.size(); ++choice)
    if (packs[choice] != nest.pack) {
      result.push_back(nest);
      result.back().pack = packs[choice];
    }
  return result;
}

namespace {

/// Whether no contraction loop encloses a loop that must be outside.
bool counts_contraction(const Problem& problem, const std::vector<int>& order) {
  bool inside = false;
  for (int dim : order) {
    inside |= problem.domain.reduction[static_cast<std::size_t>(dim)];
    const std::vector<int>& outside = problem.outside_contraction;
    if (inside && std::find(outside.begin(), outside.end(), dim) != outside.end()) return false;
  }
  return true;
}

}  // namespace

Space space(const Problem& problem, const Share& machine, Sizes sizes) {
  Space result;
  result.on_vector = problem.on_vector;
  result.contexts = problem.contexts;
  const ArraySpec& array = machine.core.array;
  for (std::size_t d = 0; d < problem.domain.extents.size(); ++d) {
    const std::int64_t extent = std::max<std::int64_t>(1, problem.domain.extents[d]);
    const auto last = [&](const std::vector<int>& dims) { return !dims.empty() && dims.back() == static_cast<int>(d); };
    std::int64_t unit = 1;
    if (last(problem.n_dims)) unit = array.columns;
    if (last(problem.k_dims)) unit = array.rows;
    if (last(problem.m_dims)) unit = machine.layout.tile.size() == 2 ? machine.layout.tile[0] : 8;
    result.units.push_back(unit);
    result.extents.push_back(extent);
    if (static_cast<int>(d) == problem.siblings) {
      result.tiles.push_back({extent});
      continue;
    }
    result.tiles.push_back(sizes == Sizes::all        ? all_sizes(extent)
                           : sizes == Sizes::divisors ? divisors_of(extent)
                                                      : aligned_sizes(extent, unit));
  }
  const std::vector<int>&b = problem.batch_dims, &m = problem.m_dims, &n = problem.n_dims, &k = problem.k_dims;
  result.orders = {concatenate({&b, &m, &n, &k}), concatenate({&b, &n, &m, &k}), concatenate({&b, &m, &k, &n}),
                   concatenate({&b, &n, &k, &m}), concatenate({&b, &k, &m, &n}), concatenate({&b, &k, &n, &m})};
  std::erase_if(result.orders, [&](const std::vector<int>& order) { return !counts_contraction(problem, order); });
  result.depths = {{2, 2, 2}, {1, 2, 2}, {2, 1, 2}, {2, 2, 1}, {1, 2, 1}, {2, 1, 1}, {1, 1, 1}, {4, 4, 2}};
  if (problem.multicast)  // deeper rings of short tiles hide sends of the other operand's long tiles
    result.depths.insert(result.depths.end(), {{4, 2, 1}, {2, 4, 1}, {4, 4, 1}});
  result.pieces = cuts(problem);
  if (problem.k_dims.size() > 1)
    for (int dim : packable(problem, machine)) result.packs.push_back(dim);
  return result;
}

}  // namespace tilesim::mapping
