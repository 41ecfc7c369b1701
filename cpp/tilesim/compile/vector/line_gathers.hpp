// Moves elements along one axis of a tile, with one gather per line or one gather for all contiguous lines.
#pragma once

#include <string>

#include "tilesim/compile/vector/tiling.hpp"
#include "tilesim/mapping/vector/lines.hpp"

namespace tilesim::lower {

/// Gathers along lines of slots that contain full tiles in row-major order.
class LineGathers {
 public:
  /// `apart`: always use one gather per line.
  LineGathers(const TiledSpace& tiles, std::size_t dim, const Share& machine, bool apart);

  /// Whether gathers use the positions that `join` computes.
  bool together() const { return lines_.together; }
  /// Converts positions within a line to positions among all consecutive lines.
  void join(const std::string& places, const std::string& joined, program::Block& block) const;
  /// Emits out[i] = in[index[i]] along the axis.
  void gather(const std::string& in, const std::string& index, const std::string& out, program::Block& block) const;

 private:
  template <class Inner>
  void over_lines(std::size_t first, Inner inner, program::Block& block) const;
  Expr points(std::size_t begin, std::size_t end) const;

  const TiledSpace& t_;
  std::size_t dim_;
  mapping::Lines lines_;
};

}  // namespace tilesim::lower
