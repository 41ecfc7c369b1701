// The nonzero pattern of a matrix, one bit per element.
#pragma once

#include <cstdint>
#include <vector>

namespace tilesim::sparse {

/// One bit per element, 1 for nonzero. Element (r, c) is bit c % 64 of word c / 64 of row r; unused bits are 0.
class BitMatrix {
 public:
  BitMatrix(std::int64_t rows, std::int64_t columns);
  /// Builds the pattern from one byte per element; strides are in elements.
  BitMatrix(std::int64_t rows, std::int64_t columns, const bool* first, std::int64_t row_stride,
            std::int64_t column_stride);
  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  bool at(std::int64_t row, std::int64_t column) const;
  void set(std::int64_t row, std::int64_t column);
  std::int64_t count() const;
  /// Number of nonzeros in columns [from, to) of a row.
  std::int64_t count(std::int64_t row, std::int64_t from, std::int64_t to) const;
  std::int64_t count_row(std::int64_t row) const { return count(row, 0, columns_); }
  /// Appends the columns of a row's nonzeros in ascending order.
  void positions(std::int64_t row, std::vector<std::int32_t>& to) const;
  BitMatrix transposed() const;

 private:
  std::int64_t rows_, columns_, words_;
  std::vector<std::uint64_t> bits_;
};

/// Draws the next pattern of the reference tables' generator: xorshift (left 13, right 7, left 17) before each element.
/// An element is zero if (x >> 20) mod 100 < 100 · (1 - density), with the right side rounded to an integer.
BitMatrix draw_pattern(std::uint64_t& state, std::int64_t rows, std::int64_t columns, double density);

}  // namespace tilesim::sparse
