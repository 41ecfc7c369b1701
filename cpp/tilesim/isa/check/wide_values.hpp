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
  /// `count` random elements in host format; integers are nonzero on request.
  std::vector<std::byte> draw(DType dtype, std::int64_t count);

 private:
  double special_float(DType dtype);
  std::uint64_t integer(DType dtype);

  std::mt19937_64 random_;
  bool no_zeros_;
};

/// Range of a view's elements in memory, relative to its first element; some may precede that.
struct WideExtent { std::int64_t low = 0, count = 0; };
WideExtent wide_extent(const TileView& view);

/// Whether the check supports the compute.
bool draws_wide(const TileCompute& compute);
bool divides_integers(const TileCompute& compute);
/// Whether a result is independent of the order of its sums, or has a bound.
bool must_agree(const TileCompute& compute, std::size_t output);
std::int64_t wide_terms(const TileCompute& compute, std::size_t output);  ///< number of elements in one result
std::string wide_text(const TileCompute& compute);

}  // namespace tilesim::isa
