#include "tilesim/tile/sparse/tiles.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "tilesim/base/error.hpp"
#include "tilesim/base/interrupt.hpp"
#include "tilesim/base/shape.hpp"

namespace tilesim::sparse {

namespace {

std::size_t place_of(std::int64_t value) { return static_cast<std::size_t>(value); }

/// Tiles of one operand, transposed if the dataflow requires it.
class Tiles {
 public:
  Tiles(const PatternView& whole, std::int64_t high, std::int64_t wide, bool turned)
      : whole_(whole),
        high_(high),
        wide_(wide),
        turned_(turned),
        down_(ceil_div(whole.rows, high)),
        across_(ceil_div(whole.columns, wide)) {
    const bool alike = whole.row_stride == 0 && whole.column_stride == 0 && whole.rows * whole.columns > 0;
    if (alike && *whole.data) return;
    for (std::int64_t row = 0; row < down_; ++row)
      for (std::int64_t column = 0; column < across_; ++column) {
        BitMatrix bits = cut(row, column);
        const bool full = bits.count() == bits.rows() * bits.columns();
        kinds_.push_back(full ? kind_of_full(row, column) : sizes + std::ssize(kinds_));
        found_.emplace_back(full ? std::optional<BitMatrix>{} : std::move(bits));
      }
  }

  /// Tiles of one kind are equal; kinds below `sizes` have no zeros.
  static constexpr std::int64_t sizes = 4;
  std::int64_t kind(std::int64_t row, std::int64_t column) const {
    return kinds_.empty() ? kind_of_full(row, column) : kinds_[place_of(row * across_ + column)];
  }
  BitMatrix bits(std::int64_t row, std::int64_t column) const {
    if (found_.empty() || !found_[place_of(row * across_ + column)]) return cut(row, column);
    return *found_[place_of(row * across_ + column)];
  }
  std::int64_t down() const { return down_; }
  std::int64_t across() const { return across_; }

 private:
  std::int64_t kind_of_full(std::int64_t row, std::int64_t column) const {
    return 2 * (row + 1 == down_) + (column + 1 == across_);
  }
  BitMatrix cut(std::int64_t row, std::int64_t column) const {
    const std::int64_t top = row * high_, left = column * wide_;
    const std::int64_t rows = std::min(high_, whole_.rows - top), columns = std::min(wide_, whole_.columns - left);
    worked(rows * columns / 8 + 1);
    const bool* first = whole_.data + top * whole_.row_stride + left * whole_.column_stride;
    return turned_ ? BitMatrix(columns, rows, first, whole_.column_stride, whole_.row_stride)
                   : BitMatrix(rows, columns, first, whole_.row_stride, whole_.column_stride);
  }

  PatternView whole_;
  std::int64_t high_, wide_;
  bool turned_;
  std::int64_t down_, across_;
  std::vector<std::int64_t> kinds_;              ///< empty: no zeros
  std::vector<std::optional<BitMatrix>> found_;  ///< of tiles with zeros
};

}  // namespace

TileTimes tile_times(const SparseCore& core, const PatternView& a, const PatternView& b, const TileSizes& sizes,
                     bool hold_b) {
  if (a.columns != b.rows)
    throw UserError({"the contracted extents of the patterns differ",
                     {},
                     std::to_string(a.columns) + " and " + std::to_string(b.rows),
                     "a: [m, k], b: [k, n]",
                     {}});
  if (std::min({sizes.m, sizes.n, sizes.k}) < 1) throw InternalError("a tile of a sparse product has no elements");
  const Tiles of_a(a, sizes.m, sizes.k, hold_b), of_b(b, sizes.k, sizes.n, hold_b);
  TileTimes times{{of_a.down(), of_b.across(), of_a.across()}, {}, {}};
  const auto all = place_of(times.tiles[0] * times.tiles[1] * times.tiles[2]);
  times.cycles.reserve(all);
  times.products.reserve(all);
  std::map<std::pair<std::int64_t, std::int64_t>, std::pair<std::int64_t, std::int64_t>> known;
  const auto time_of = [&](std::int64_t i, std::int64_t j, std::int64_t k) -> std::pair<std::int64_t, std::int64_t> {
    const BitMatrix left = of_a.bits(i, k), right = of_b.bits(k, j);
    const SparseTime time = hold_b ? sparse_time(core, right, left) : sparse_time(core, left, right);
    return {static_cast<std::int64_t>(std::ceil(time.cycles)), static_cast<std::int64_t>(time.products)};
  };
  for (std::int64_t i = 0; i < times.tiles[0]; ++i)
    for (std::int64_t j = 0; j < times.tiles[1]; ++j)
      for (std::int64_t k = 0; k < times.tiles[2]; ++k) {
        worked(8);
        const std::pair kinds{of_a.kind(i, k), of_b.kind(k, j)};
        std::pair<std::int64_t, std::int64_t> time;
        if (std::min(kinds.first, kinds.second) >= Tiles::sizes) {
          time = time_of(i, j, k);
        } else {
          const auto found = known.find(kinds);
          time = found != known.end() ? found->second : known.emplace(kinds, time_of(i, j, k)).first->second;
        }
        times.cycles.push_back(time.first);
        times.products.push_back(time.second);
      }
  return times;
}

}  // namespace tilesim::sparse
