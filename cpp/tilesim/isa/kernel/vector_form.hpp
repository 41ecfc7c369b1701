// How the iteration space of a vector compute lies in registers.
#pragma once

#include <cstdint>
#include <vector>

#include "tilesim/tile/tile.hpp"

namespace tilesim::isa {

/// Registers (groups of LMUL) of `rows` rows of `lanes` elements. A compute is `groups` of them, each made of `steps`
/// that follow each other where results are combined. Operands lie as they are read:
///   each     [groups][steps][rows][lanes]
///   by_group [groups][rows][lanes], the same in all steps
///   by_step  [steps][rows][lanes], the same in all groups
///   by_row   as by_group, but one element for each row of lanes
///   one      a single element
struct RegisterForm {
  enum class Reach : std::uint8_t { each, by_group, by_step, by_row, one };

  /// Running sums: their dim is that of the steps, in the order of the sum. Where it does not lie over the lanes,
  /// `side` groups go through the steps together: `each` is [groups][steps][side], `by_group` [groups][side].
  /// `cut`: rows may be cut into chunks.
  RegisterForm(const VectorCompute& compute, std::int64_t lanes, std::int64_t rows, std::int64_t side = 1,
               bool cut = true);

  std::int64_t lanes, rows, side = 1;
  std::int64_t groups = 1, steps = 1;
  /// Running sums of fewer rows than a register has: each of so many parts of a row of the compute has rows of its own,
  /// which go through the steps side by side. What the parts before it sum to is found first.
  std::int64_t chunks = 1;
  bool stepped() const { return steps > 1 || chunks > 1; }
  std::int64_t last_rows = 0;  ///< of the last group, where no rows are combined
  bool ragged = false;         ///< places without an element take part in results that are combined
  bool lane_reduced = false, rows_reduced = false, steps_reduced = false;
  bool lane_scanned = false, steps_scanned = false;  ///< running sums along the lanes; along another dim
  std::int64_t scan_lanes = 1;                       ///< lanes of a row that have elements
  std::vector<Reach> reach;                          ///< of the inputs

  /// Where an element is; `index` has a number for each dim.
  struct Place { std::int64_t group = 0, step = 0, row = 0, lane = 0, beside = 0; };
  Place place(const std::vector<std::int64_t>& index) const;
  Reach reach_of(const TileView& view) const;
  std::int64_t elements() const { return rows * lanes; }         ///< of a register group
  std::int64_t chunk_elements() const { return kept_ * lanes; }  ///< from a part of a row to the next

 private:
  void cut_rows(bool combines);
  void find_scans(const VectorCompute& compute, const std::vector<int>& combined_dims);

  std::vector<std::int64_t> extents_;
  std::vector<bool> reduced_;  ///< outer dims
  int lane_dim_ = 0;
  std::int64_t blocks_ = 1, kept_ = 1, combined_ = 1;
  bool by_block_ = false;       ///< blocks of lanes are steps of a group, not groups
  bool over_combined_ = false;  ///< rows of a register are combined ones
  bool nested_ = false;         ///< running sums of running sums
  bool backwards_ = false;      ///< a running sum from the last element to the first
  std::int64_t before_ = 0;     ///< lanes without elements before a row's first: a sum from the end finds its rows full
};

}  // namespace tilesim::isa
