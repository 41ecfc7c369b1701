// Groups the tiles along one axis of an operand by equal cost, without a visit to each tile.
#include <algorithm>
#include <numeric>

#include "tilesim/base/interrupt.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/mapping/cost.hpp"

namespace tilesim::mapping {

/// If one dim moves forward along the axis, the positions of full tiles inside the tensor, relative to bursts or layout
/// tiles, repeat periodically. One period represents all of them, so that long axes take constant time.
CostModel::Repeated CostModel::repeats(const AxisAccess& axis, std::int64_t size, const Nest& nest,
                                       std::int64_t unit) const {
  Repeated none;
  const AxisAccess::Term* moving = nullptr;  // the term with the most tiles
  for (const AxisAccess::Term& term : axis.terms) {
    const std::int64_t most = moving ? parts(nest, static_cast<std::size_t>(moving->dim)) : 1;
    if (term.coefficient > 0 && parts(nest, static_cast<std::size_t>(term.dim)) > most) moving = &term;
  }
  std::int64_t low = axis.constant, high = axis.constant + axis.window - 1;  // range of the first tile, not clipped
  for (const AxisAccess::Term& term : axis.terms) {
    const auto d = static_cast<std::size_t>(term.dim);
    const std::int64_t reach = term.coefficient * ((&term == moving ? nest.tiles[d] : problem_.domain.extents[d]) - 1);
    low += std::min<std::int64_t>(reach, 0);
    high += std::max<std::int64_t>(reach, 0);
  }
  if (!moving) return none;
  const auto d = static_cast<std::size_t>(moving->dim);
  const std::int64_t step = moving->coefficient * nest.tiles[d], each = pieces(nest, d);
  const std::int64_t first = low < 0 ? ceil_div(-low, step) : 0;
  const std::int64_t inside = high > size - 2 ? 0 : (size - 2 - high) / step + 1;
  const std::int64_t end = std::min(inside, problem_.domain.extents[d] / nest.tiles[d]);
  const std::int64_t period = unit / std::gcd(unit, step), times = end > first ? (end - first) / period : 0;
  if (times < 2) return none;
  return {moving->dim, first * each, (first + period) * each, times};
}

/// Positions of the tiles along one axis, grouped by length and by position relative to a burst or layout tile.
const std::vector<CostModel::Group>& CostModel::groups(std::size_t operand, std::size_t axis, std::int64_t along,
                                                       const Nest& nest) {
  const AxisAccess& map = access(operand).axes[axis];
  Extents key{static_cast<std::int64_t>(operand), static_cast<std::int64_t>(axis), along};
  for (const AxisAccess::Term& term : map.terms) key.push_back(nest.tiles[static_cast<std::size_t>(term.dim)]);
  if (!nest.sub.empty())
    for (const AxisAccess::Term& term : map.terms) key.push_back(nest.sub[static_cast<std::size_t>(term.dim)]);
  const auto [entry, fresh] = groups_.try_emplace(std::move(key));
  if (!fresh) return entry->second;
  const Shape& tile = machine_.layout.tile;
  const std::size_t rank = access(operand).axes.size();
  const std::vector<int>& order = problem_.minor_to_major[operand];
  std::int64_t unit = 1;  // positions that are equal modulo this number of elements cost the same
  if (tile.size() == 2 && rank >= 2) {
    if (static_cast<std::size_t>(order[0]) == axis) unit = tile[1];
    if (static_cast<std::size_t>(order[1]) == axis) unit = tile[0];
  } else {
    const std::int64_t burst = machine_.memory.burst_bytes * 8, stride = strides_[operand][axis];
    unit = burst / std::gcd(burst, stride);
  }
  std::vector<Group>& result = entry->second;
  const std::int64_t size = problem_.shapes[operand][axis];
  const Repeated repeated = repeats(map, size, nest, unit);
  Extents index(nest.tiles.size(), 0);
  while (true) {
    worked(16);
    const Span here = span(map, size, along, nest, index);
    const std::int64_t start = std::max<std::int64_t>(0, here.start) % unit;
    const auto same = std::find_if(result.begin(), result.end(), [&](const Group& group) {
      return group.span.length == here.length && group.span.start == start && group.span.to_end == here.to_end;
    });
    const bool often = repeated.dim >= 0 && index[static_cast<std::size_t>(repeated.dim)] >= repeated.first;
    const std::int64_t count =
        often && index[static_cast<std::size_t>(repeated.dim)] < repeated.end ? repeated.times : 1;
    if (same != result.end())
      same->count += count;
    else
      result.push_back({{start, here.length, here.to_end}, count});
    std::size_t i = 0;
    for (; i < map.terms.size(); ++i) {
      const auto d = static_cast<std::size_t>(map.terms[i].dim);
      if (++index[d] == repeated.end && map.terms[i].dim == repeated.dim)
        index[d] += (repeated.times - 1) * (repeated.end - repeated.first);
      if (index[d] < parts(nest, d)) break;
      index[d] = 0;
    }
    if (i == map.terms.size()) return result;
  }
}

}  // namespace tilesim::mapping
