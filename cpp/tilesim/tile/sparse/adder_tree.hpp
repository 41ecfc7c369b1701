// An adder tree with additional links between adjacent nodes of different parents, as in the reduction networks of
// MAERI and SIGMA: which adder sums a run of adjacent multipliers, and which output line carries the sum.
#pragma once

#include <cstdint>
#include <vector>

namespace tilesim::sparse {

/// An adder tree over a power of two of multipliers. Adders have (level, index); level 0 adds pairs of multipliers.
class AdderTree {
 public:
  AdderTree(std::int64_t multipliers, std::int64_t lines);

  /// The path of the sum over multipliers low to high. A partial sum at the edge of the run moves sideways to its inner
  /// neighbour instead of up, which takes one more cycle.
  struct Path {
    std::int32_t level = 0, index = 0;                 ///< adder that produces the sum
    std::vector<std::int64_t> left;                    ///< sideways moves: delay multipliers up to this one
    std::vector<std::int64_t> right;                   ///< sideways moves: delay multipliers from this one on
    std::int64_t late(std::int64_t multiplier) const;  ///< delay in cycles
  };
  Path path(std::int64_t low, std::int64_t high) const;

  /// The output line of an adder. Two adders with a sideways link share a line. From the root down, these pairs get
  /// lines in order, then the first and last adder of each level.
  std::int32_t line(std::int32_t level, std::int32_t index) const;

 private:
  std::int32_t levels_;
  std::vector<std::vector<std::int32_t>> lines_;  ///< per level and adder
};

}  // namespace tilesim::sparse
