// Where an adder tree with links between adjacent nodes of different parents (the reduction network of MAERI and SIGMA)
// sums a run of adjacent multipliers, and which output line takes the sum.
#pragma once

#include <cstdint>
#include <vector>

namespace tilesim::sparse {

/// An adder tree over a power of two of multipliers; adders are (level, index), and level 0 adds pairs of multipliers.
class AdderTree {
 public:
  AdderTree(std::int64_t multipliers, std::int64_t lines);

  /// The path of the sum over multipliers [low, high]. A partial sum at the edge moves sideways to its inner neighbour
  /// instead of up, which takes one more cycle.
  struct Path {
    std::int32_t level = 0, index = 0;                 ///< adder with the final sum
    std::vector<std::int64_t> left;                    ///< sideways moves for multipliers up to this one
    std::vector<std::int64_t> right;                   ///< for multipliers from this one on
    std::int64_t late(std::int64_t multiplier) const;  ///< delay in cycles
  };
  Path path(std::int64_t low, std::int64_t high) const;

  /// The line of an adder: adders joined by a sideways link share one; from the root down these pairs take the lines in
  /// order, then the first and the last adder of each level.
  std::int32_t line(std::int32_t level, std::int32_t index) const;

 private:
  std::int32_t levels_;
  std::vector<std::vector<std::int32_t>> lines_;  ///< per level
};

}  // namespace tilesim::sparse
