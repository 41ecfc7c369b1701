#include <algorithm>
#include <bit>
#include <cmath>

#include "tilesim/tile/sparse/bit_matrix.hpp"

namespace tilesim::sparse {

namespace {

constexpr std::int64_t bits_per_word = 64;

std::size_t at_index(std::int64_t value) { return static_cast<std::size_t>(value); }

/// Element (r, c) is bit c of word r. Swaps halves, quarters, ... of the square across its diagonal.
void transpose(std::uint64_t (&square)[bits_per_word]) {
  std::uint64_t low = ~std::uint64_t{0} >> (bits_per_word / 2);
  for (std::size_t half = bits_per_word / 2; half > 0; half /= 2, low ^= low << half)
    for (std::size_t row = 0; row < at_index(bits_per_word); row = (row + half + 1) & ~half) {
      const std::uint64_t differ = (square[row] >> half ^ square[row + half]) & low;
      square[row + half] ^= differ;
      square[row] ^= differ << half;
    }
}

}  // namespace

BitMatrix::BitMatrix(std::int64_t rows, std::int64_t columns)
    : rows_(rows),
      columns_(columns),
      words_((columns + bits_per_word - 1) / bits_per_word),
      bits_(at_index(rows * words_)) {}

BitMatrix::BitMatrix(std::int64_t rows, std::int64_t columns, const bool* first, std::int64_t row_stride,
                     std::int64_t column_stride)
    : BitMatrix(rows, columns) {
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t column = 0; column < columns; ++column) {
      const std::uint64_t bit = first[row * row_stride + column * column_stride] ? 1 : 0;
      bits_[at_index(row * words_ + column / bits_per_word)] |= bit << (column % bits_per_word);
    }
}

bool BitMatrix::at(std::int64_t row, std::int64_t column) const {
  return (bits_[at_index(row * words_ + column / bits_per_word)] >> (column % bits_per_word) & 1) != 0;
}

void BitMatrix::set(std::int64_t row, std::int64_t column) {
  bits_[at_index(row * words_ + column / bits_per_word)] |= std::uint64_t{1} << (column % bits_per_word);
}

std::int64_t BitMatrix::count() const {
  std::int64_t sum = 0;
  for (const std::uint64_t word : bits_) sum += std::popcount(word);
  return sum;
}

std::int64_t BitMatrix::count(std::int64_t row, std::int64_t from, std::int64_t to) const {
  std::int64_t sum = 0;
  for (std::int64_t word = from / bits_per_word; word * bits_per_word < to; ++word) {
    std::uint64_t bits = bits_[at_index(row * words_ + word)];
    if (word == from / bits_per_word) bits &= ~std::uint64_t{0} << (from % bits_per_word);
    if (to - word * bits_per_word < bits_per_word) bits &= (std::uint64_t{1} << (to - word * bits_per_word)) - 1;
    sum += std::popcount(bits);
  }
  return sum;
}

void BitMatrix::positions(std::int64_t row, std::vector<std::int32_t>& to) const {
  for (std::int64_t word = 0; word < words_; ++word)
    for (std::uint64_t bits = bits_[at_index(row * words_ + word)]; bits != 0; bits &= bits - 1)
      to.push_back(static_cast<std::int32_t>(word * bits_per_word + std::countr_zero(bits)));
}

BitMatrix BitMatrix::transposed() const {
  BitMatrix result(columns_, rows_);
  std::uint64_t square[bits_per_word];
  for (std::int64_t top = 0; top < rows_; top += bits_per_word)
    for (std::int64_t word = 0; word < words_; ++word) {
      std::uint64_t any = 0;
      for (std::int64_t row = 0; row < bits_per_word; ++row)
        any |= square[row] = top + row < rows_ ? bits_[at_index((top + row) * words_ + word)] : 0;
      if (any == 0) continue;
      transpose(square);
      const std::int64_t left = word * bits_per_word, wide = std::min(bits_per_word, columns_ - left);
      for (std::int64_t column = 0; column < wide; ++column)
        result.bits_[at_index((left + column) * result.words_ + top / bits_per_word)] = square[column];
    }
  return result;
}

BitMatrix draw_pattern(std::uint64_t& state, std::int64_t rows, std::int64_t columns, double density) {
  const auto zeros = static_cast<std::uint64_t>(std::llround(100 * (1 - density)));
  BitMatrix pattern(rows, columns);
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t column = 0; column < columns; ++column) {
      state ^= state << 13;
      state ^= state >> 7;
      state ^= state << 17;
      if ((state >> 20) % 100 >= zeros) pattern.set(row, column);
    }
  return pattern;
}

}  // namespace tilesim::sparse
