// Test values over the whole range of a type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tilesim/tile/tile.hpp"

namespace tilesim::isa {

class WideValues {
 public:
  WideValues(std::uint64_t seed, bool no_zeros) : random_(seed), no_zeros_(no_zeros) {}
  /// So many elements as hosts hold them; of integers none is 0 where asked for.
  std::vector<std::byte> draw(DType dtype, std::int64_t count);

 private:
  double special_float(DType dtype);
  std::uint64_t integer(DType dtype);

  std::mt19937_64 random_;
  bool no_zeros_;
};

/// Elements in memory from the first of the view on, some of them before it.
struct WideExtent { std::int64_t low = 0, count = 0; };
WideExtent wide_extent(const TileView& view);

/// Whether the check knows how to draw for it, and what its kernel owes.
bool draws_wide(const TileCompute& compute);
bool divides_integers(const TileCompute& compute);
/// Whether a result is the same in any order of its sums, or has a bound.
bool must_agree(const TileCompute& compute, std::size_t output);
std::int64_t wide_terms(const TileCompute& compute, std::size_t output);  ///< that one element of a result combines
std::string wide_text(const TileCompute& compute);

}  // namespace tilesim::isa
