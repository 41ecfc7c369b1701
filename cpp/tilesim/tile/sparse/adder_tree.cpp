#include "tilesim/tile/sparse/adder_tree.hpp"

#include <bit>

namespace tilesim::sparse {

AdderTree::AdderTree(std::int64_t multipliers, std::int64_t lines)
    : levels_(static_cast<std::int32_t>(std::bit_width(static_cast<std::uint64_t>(multipliers))) - 1) {
  std::vector<std::int32_t*> alone;
  std::int64_t pairs = 0;
  lines_.resize(static_cast<std::size_t>(levels_));
  for (std::int32_t level = levels_ - 1; level >= 0; --level) {
    auto& row = lines_[static_cast<std::size_t>(level)];
    row.resize(static_cast<std::size_t>(multipliers >> (level + 1)));
    for (std::size_t i = 1; i + 1 < row.size(); i += 2)
      row[i] = row[i + 1] = static_cast<std::int32_t>(pairs++ % lines);
    alone.push_back(&row.front());
    if (row.size() > 1) alone.push_back(&row.back());
  }
  std::int64_t next = 2 * pairs;
  for (std::int32_t* line : alone) *line = static_cast<std::int32_t>(next++ % lines);
}

std::int32_t AdderTree::line(std::int32_t level, std::int32_t index) const {
  return lines_[static_cast<std::size_t>(level)][static_cast<std::size_t>(index)];
}

std::int64_t AdderTree::Path::late(std::int64_t multiplier) const {
  std::int64_t cycles = 0;
  for (const std::int64_t last : left) cycles += multiplier <= last;
  for (const std::int64_t first : right) cycles += multiplier >= first;
  return cycles;
}

AdderTree::Path AdderTree::path(std::int64_t low, std::int64_t high) const {
  Path path;
  // Nodes [a, b] of the level below hold the run; the first ends at multiplier `end`, the last begins at `begin`.
  std::int64_t a = low, b = high, end = low, begin = high;
  for (std::int32_t level = 0; level < levels_; ++level) {
    const std::int64_t first = a / 2, last = b / 2;
    const bool two_first = a % 2 == 0 && a < b, two_last = b % 2 == 1 && a < b;
    if (two_first) end = a + 1 == b ? high : ((a + 2) << level) - 1;
    if (two_last) begin = b - 1 == a ? low : (b - 1) << level;
    path.level = level;
    path.index = static_cast<std::int32_t>(first);
    if (first == last) return path;
    const bool moves_first = first % 2 == 1, moves_last = last % 2 == 0;
    if (moves_first &&
        last == first + 1) {  // both are at the edge: the one with fewer inputs moves, on a tie the last one
      if (two_first || !two_last) {
        path.right.push_back(begin);
      } else {
        path.left.push_back(end);
        path.index = static_cast<std::int32_t>(last);
      }
      return path;
    }
    if (moves_first) path.left.push_back(end);
    if (moves_last) path.right.push_back(begin);
    a = moves_first ? first + 1 : first;
    b = moves_last ? last - 1 : last;
    if (moves_first) end = ((a + 1) << (level + 1)) - 1;
    if (moves_last) begin = b << (level + 1);
  }
  return path;
}

}  // namespace tilesim::sparse
