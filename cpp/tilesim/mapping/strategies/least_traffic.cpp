// Least traffic of a product with a memory of `words` elements, by enumeration of orders and tiles.
#include <string>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/mapping/space.hpp"

namespace tilesim::mapping {

namespace {

std::vector<std::int64_t> sizes_of(std::int64_t extent, Sizes sizes) {
  Problem problem;
  problem.domain.extents = {extent};
  const Machine any;
  return space(problem, any, sizes).tiles[0];
}

/// Number of words moved. An operand is fetched once per trip of a loop on which it does not depend, if this loop
/// encloses a loop on which it depends. The result is written once per pass, and read once per pass after the first.
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
