#include <bit>
#include <cmath>

#include "tilesim/tile/sparse/bit_matrix.hpp"

namespace tilesim::sparse {

namespace {

std::size_t at_index(std::int64_t value) { return static_cast<std::size_t>(value); }

}  // namespace

BitMatrix::BitMatrix(std::int64_t rows, std::int64_t columns)
    : rows_(rows), columns_(columns), words_((columns + 63) / 64), bits_(at_index(rows * words_)) {}

bool BitMatrix::at(std::int64_t row, std::int64_t column) const {
  return (bits_[at_index(row * words_ + column / 64)] >> (column % 64) & 1) != 0;
}

void BitMatrix::set(std::int64_t row, std::int64_t column) {
  bits_[at_index(row * words_ + column / 64)] |= std::uint64_t{1} << (column % 64);
}

std::int64_t BitMatrix::count() const {
  std::int64_t sum = 0;
  for (const std::uint64_t word : bits_) sum += std::popcount(word);
  return sum;
}

std::int64_t BitMatrix::count(std::int64_t row, std::int64_t from, std::int64_t to) const {
  std::int64_t sum = 0;
  for (std::int64_t word = from / 64; word * 64 < to; ++word) {
    std::uint64_t bits = bits_[at_index(row * words_ + word)];
    if (word == from / 64) bits &= ~std::uint64_t{0} << (from % 64);
    if (to - word * 64 < 64) bits &= (std::uint64_t{1} << (to - word * 64)) - 1;
    sum += std::popcount(bits);
  }
  return sum;
}

void BitMatrix::positions(std::int64_t row, std::vector<std::int32_t>& to) const {
  for (std::int64_t word = 0; word < words_; ++word)
    for (std::uint64_t bits = bits_[at_index(row * words_ + word)]; bits != 0; bits &= bits - 1)
      to.push_back(static_cast<std::int32_t>(word * 64 + std::countr_zero(bits)));
}

BitMatrix BitMatrix::transposed() const {
  BitMatrix result(columns_, rows_);
  std::vector<std::int32_t> found;
  for (std::int64_t row = 0; row < rows_; ++row) {
    found.clear();
    positions(row, found);
    for (const std::int32_t column : found) result.set(column, row);
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
