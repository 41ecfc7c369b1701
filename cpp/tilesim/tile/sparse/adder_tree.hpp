// Where a run of neighbouring multipliers is summed in an adder tree with links between neighbours of different parents
// (the reduction network of MAERI and SIGMA), and which output line takes the sum.
#pragma once

#include <cstdint>
#include <vector>

namespace tilesim::sparse {

/// Adders are (level, index): level 0 adds pairs of multipliers. Multipliers: a power of two.
class AdderTree {
 public:
  AdderTree(std::int64_t multipliers, std::int64_t lines);

  /// Sum of multipliers [low, high]. A sum at the edge of a run moves sideways to the neighbour inside instead of up
  /// alone, and is a cycle later for it.
  struct Path {
    std::int32_t level = 0, index = 0;                 ///< of the adder that ends the sum
    std::vector<std::int64_t> left;                    ///< sideways moves: of multipliers up to this one
    std::vector<std::int64_t> right;                   ///< of multipliers from this one
    std::int64_t late(std::int64_t multiplier) const;  ///< cycles
  };
  Path path(std::int64_t low, std::int64_t high) const;

  /// Neighbours that share a sideways link share a line; from the root down these pairs take the lines in turn, the
  /// first and the last adder of each level after them.
  std::int32_t line(std::int32_t level, std::int32_t index) const;

 private:
  std::int32_t levels_;
  std::vector<std::vector<std::int32_t>> lines_;  ///< per level
};

}  // namespace tilesim::sparse
