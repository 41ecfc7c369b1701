// Converts operands of products between tile views and the array's layout (mma_kernel.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tilesim/tile/tile.hpp"

namespace tilesim::isa {

class ProductLayout {
 public:
  /// `kept`: the stationary operand, 0 or 1; rows and columns are those of the array.
  ProductLayout(const Mma& mma, int kept, std::int64_t rows, std::int64_t columns);

  std::int64_t batch() const { return count(moving_.batch); }
  std::int64_t taps() const { return count(moving_.taps); }
  std::int64_t depth() const { return count(moving_.depth); }
  std::int64_t moving_rows() const { return count(moving_.rows); }
  std::int64_t across() const { return count(held_.rows); }

  std::vector<std::byte> moving() const;
  std::vector<std::byte> held() const;
  /// Sums from the view; zeros if it has no data.
  std::vector<std::uint32_t> sums() const;
  void give_back(const std::vector<std::uint32_t>& sums) const;

 private:
  /// Offsets in elements of all points of some dims of a view; `together`: they are consecutive.
  struct Offsets {
    std::vector<std::int64_t> all;
    bool together = true;
  };
  struct OperandOffsets { Offsets batch, rows, taps, depth; };

  static std::int64_t count(const Offsets& offsets) { return static_cast<std::int64_t>(offsets.all.size()); }
  static Offsets offsets_of(const TileView& view, int first, int count);
  template <class Move>
  void each_row_of_sums(Move move) const;

  const Mma& mma_;
  const TileView &moving_view_, &held_view_;
  OperandOffsets moving_, held_;
  Offsets sum_batch_, sum_rows_, sum_columns_;
  std::int64_t array_rows_, array_columns_;
};

}  // namespace tilesim::isa
