// The register layout and the comparator network of a sort. Kernels execute this plan; closed forms count its steps.
#pragma once

#include <cstdint>
#include <vector>

#include "tilesim/base/dtype.hpp"

namespace tilesim {

/// A key and its position form one unsigned word; `min` and `max` order two words. Because positions make equal keys
/// differ, any sorting network is stable.
///
/// A register contains `columns` parts of each of `rows` rows: part c of row r is element c · rows + r of the register.
/// Register j of `registers` contains the elements c · registers + j of the rows. Therefore registers can be compared
/// without moves within a register; afterwards flips of parts merge the sorted parts.
///
/// For 64-bit keys, a word is two registers, the key and the position; comparators compare both and then select.
///
/// The networks are bitonic with all comparisons in one direction (Batcher, "Sorting networks and their applications",
/// 1968), so positions after the last element need no comparison. If only a few elements are kept, runs of this length
/// are sorted, and the better half of two runs is kept (Shanbhag, Pirahesh, Madden, "Efficient top-k query processing
/// on GPUs", 2018).
struct SortPlan {
  /// `elements`: number of 32-bit elements in a register.
  SortPlan(DType key, std::int64_t of_rows, std::int64_t of_extent, std::int64_t of_kept, std::int64_t elements);

  static constexpr std::int64_t block = 8;  ///< registers that are sorted without memory accesses in between

  std::int64_t extent, kept;
  int word_bits = 64;
  bool wide = false;  ///< 64-bit keys: positions have separate words
  std::int64_t rows = 1, row_blocks = 1, columns = 1;
  std::int64_t registers = 1;  ///< registers per row block, including those after the last element
  std::int64_t filled = 1;     ///< registers that contain elements
  std::int64_t run = 1;        ///< number of kept elements, rounded up to a power of two
  std::int64_t sorted = 1;     ///< registers of a sorted part: all, or as many as are kept

  bool chooses() const { return run < registers; }      ///< merges runs by their better halves
  bool resident() const { return registers <= block; }  ///< the register file contains all registers
  bool streams() const { return chooses() && run <= (wide ? block / 2 : block); }  ///< runs fit the register file
  std::int64_t stored() const { return sorted < kept ? sorted : kept; }            ///< result registers
  std::int64_t elements() const { return columns * rows; }                         ///< used elements per register
  std::int64_t word_bytes() const { return elements() * word_bits / 8 * (wide ? 2 : 1); }  ///< bytes per register
  bool padded() const { return columns * registers > extent && columns > 1; }  ///< some positions have no element
};

/// Plans with full, half, ... registers while a register has several parts of a row: shorter ones need fewer flips.
std::vector<SortPlan> sort_plans(DType key, std::int64_t rows, std::int64_t extent, std::int64_t kept,
                                 std::int64_t elements);

}  // namespace tilesim
