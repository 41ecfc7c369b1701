#include "tilesim/isa/latency/product_layout.hpp"

#include <algorithm>
#include <cstring>

#include "tilesim/base/shape.hpp"
#include "tilesim/tile/strided.hpp"

namespace tilesim::isa {

namespace {

using Numbers = std::vector<std::int64_t>;

template <class Bits>
void gather(std::byte* to, const std::byte* from, const std::int64_t* offsets, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i)
    std::memcpy(to + i * static_cast<std::int64_t>(sizeof(Bits)),
                from + offsets[i] * static_cast<std::int64_t>(sizeof(Bits)), sizeof(Bits));
}

/// Copies the elements at `count` offsets from `from` to a contiguous buffer.
void take_row(std::byte* to, const std::byte* from, const std::int64_t* offsets, std::int64_t count, bool together,
              std::int64_t bytes) {
  if (count <= 0) return;
  if (together)
    std::memcpy(to, from + offsets[0] * bytes, static_cast<std::size_t>(count * bytes));
  else if (bytes == 4)
    gather<std::uint32_t>(to, from, offsets, count);
  else if (bytes == 2)
    gather<std::uint16_t>(to, from, offsets, count);
  else
    gather<std::uint8_t>(to, from, offsets, count);
}

std::size_t size_of(std::int64_t elements, std::int64_t bytes) { return static_cast<std::size_t>(elements * bytes); }

}  // namespace

ProductLayout::Offsets ProductLayout::offsets_of(const TileView& view, int first, int count) {
  Offsets found;
  for_each_offset(view.dims.data() + first, static_cast<std::size_t>(count),
                  [&](std::int64_t offset) { found.all.push_back(offset); });
  for (std::size_t i = 1; i < found.all.size(); ++i) found.together &= found.all[i] == found.all[i - 1] + 1;
  return found;
}

ProductLayout::ProductLayout(const Mma& mma, int kept, std::int64_t rows, std::int64_t columns)
    : mma_(mma),
      moving_view_(kept == 1 ? mma.a : mma.b),
      held_view_(kept == 1 ? mma.b : mma.a),
      array_rows_(rows),
      array_columns_(columns) {
  const int packed = std::clamp(mma.packed, 1, std::max(1, mma.k_dims));
  const auto parts = [&](const TileView& view, bool first) {
    const int own = first ? mma.m_dims : mma.n_dims;  // dims of `a`: batch, m, k; of `b`: batch, k, n
    const int at = mma.batch_dims + (first ? 0 : mma.k_dims), k = mma.batch_dims + (first ? own : 0);
    return OperandOffsets{offsets_of(view, 0, mma.batch_dims), offsets_of(view, at, own),
                          offsets_of(view, k, mma.k_dims - packed), offsets_of(view, k + mma.k_dims - packed, packed)};
  };
  moving_ = parts(moving_view_, kept == 1), held_ = parts(held_view_, kept != 1);
  sum_batch_ = offsets_of(mma.c, 0, mma.batch_dims);
  Offsets m = offsets_of(mma.c, mma.batch_dims, mma.m_dims),
          n = offsets_of(mma.c, mma.batch_dims + mma.m_dims, mma.n_dims);
  sum_rows_ = kept == 1 ? std::move(m) : std::move(n), sum_columns_ = kept == 1 ? std::move(n) : std::move(m);
}

/// The moving operand as [batch][taps][blocks of depth][rows][array rows].
std::vector<std::byte> ProductLayout::moving() const {
  const std::int64_t bytes = host_bytes(moving_view_.dtype), width = array_rows_, deep = depth();
  std::vector<std::byte> to(size_of(batch() * taps() * ceil_div(deep, width) * width * moving_rows(), bytes));
  std::byte* at = to.data();
  for (const std::int64_t batch : moving_.batch.all)
    for (const std::int64_t tap : moving_.taps.all)
      for (std::int64_t k = 0; k < deep; k += width)
        for (const std::int64_t row : moving_.rows.all) {
          take_row(at, moving_view_.data + (batch + tap + row) * bytes, moving_.depth.all.data() + k,
                   std::min(width, deep - k), moving_.depth.together, bytes);
          at += width * bytes;
        }
  return to;
}

/// The kept operand as [batch][blocks across][taps][blocks of depth][array rows][array columns].
std::vector<std::byte> ProductLayout::held() const {
  const std::int64_t bytes = host_bytes(held_view_.dtype), wide = across(), deep = depth();
  const std::int64_t down = ceil_div(deep, array_rows_) * array_rows_, width = array_columns_;
  std::vector<std::byte> to(size_of(batch() * taps() * down * ceil_div(wide, width) * width, bytes));
  std::byte* at = to.data();
  for (const std::int64_t batch : held_.batch.all)
    for (std::int64_t n = 0; n < wide; n += width)
      for (const std::int64_t tap : held_.taps.all) {
        for (const std::int64_t k : held_.depth.all) {
          take_row(at, held_view_.data + (batch + tap + k) * bytes, held_.rows.all.data() + n,
                   std::min(width, wide - n), held_.rows.together, bytes);
          at += width * bytes;
        }
        at += (down - deep) * width * bytes;
      }
  return to;
}

/// Calls `move(row of the view, offsets in it, count, position in [batch][blocks across][rows][array columns])`.
template <class Move>
void ProductLayout::each_row_of_sums(Move move) const {
  const std::int64_t wide = count(sum_columns_), width = array_columns_;
  std::int64_t place = 0;
  for (const std::int64_t batch : sum_batch_.all)
    for (std::int64_t n = 0; n < wide; n += width)
      for (const std::int64_t row : sum_rows_.all) {
        move(mma_.c.data + 4 * (batch + row), sum_columns_.all.data() + n, std::min(width, wide - n), place);
        place += width;
      }
}

std::vector<std::uint32_t> ProductLayout::sums() const {
  std::vector<std::uint32_t> to(
      size_of(count(sum_batch_) * count(sum_rows_) * ceil_div(count(sum_columns_), array_columns_), array_columns_));
  each_row_of_sums([&](const std::byte* from, const std::int64_t* offsets, std::int64_t columns, std::int64_t place) {
    take_row(reinterpret_cast<std::byte*>(to.data() + place), from, offsets, columns, sum_columns_.together, 4);
  });
  return to;
}

void ProductLayout::give_back(const std::vector<std::uint32_t>& sums) const {
  each_row_of_sums([&](std::byte* to, const std::int64_t* offsets, std::int64_t columns, std::int64_t place) {
    for (std::int64_t i = 0; i < columns; ++i)
      std::memcpy(to + 4 * offsets[i], &sums[static_cast<std::size_t>(place + i)], 4);
  });
}

}  // namespace tilesim::isa
