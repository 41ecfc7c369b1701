// The layout of a vector compute's elements in registers.
#pragma once

#include <cstdint>
#include <vector>

#include "tilesim/tile/tile.hpp"
#include "tilesim/tile/vector_form.hpp"

namespace tilesim::isa {

/// The form of a compute as its views have it.
struct RegisterForm : VectorForm {
  /// Running sums: their dim is that of the steps, in the order of the sum. Where it does not lie over the lanes,
  /// `side` groups go through the steps together: `each` is [groups][steps][side], `by_group` [groups][side].
  /// `cut`: rows may be cut into chunks. `share`: where nothing is combined, dims along which no operand of one element
  /// for each row differs are steps, so that registers which have such operands in common follow each other.
  RegisterForm(const VectorCompute& compute, std::int64_t lanes, std::int64_t rows, std::int64_t side = 1,
               bool cut = true, bool share = false);

  std::int64_t side = 1;
  /// Running sums of fewer rows than a register has: each of so many parts of a row of the compute has separate rows,
  /// which go through the steps side by side. What the parts before it sum to is found first.
  std::int64_t chunks = 1;
  bool stepped() const { return steps > 1 || chunks > 1; }
  bool ragged = false;           ///< places without an element take part in results that are combined
  bool lanes_at_end = false;     ///< lanes without elements are left out of totals, not of each step
  std::int64_t ragged_from = 0;  ///< the first step in which places have no element
  bool lane_scanned = false, steps_scanned = false;  ///< running sums along the lanes; along another dim
  bool scanned() const { return lane_scanned || steps_scanned; }
  std::int64_t scan_lanes = 1;  ///< lanes of a row that have elements
  std::vector<Reach> reaches;   ///< of the inputs

  /// Where an element is; `index` has a number for each dim.
  struct ElementPosition { std::int64_t group = 0, step = 0, row = 0, lane = 0, beside = 0; };
  ElementPosition place(const std::vector<std::int64_t>& index) const;
  Reach reach_of(const TileView& view) const;
  /// Of the registers that differ in all groups and steps: how many stand before this one.
  std::int64_t order(const ElementPosition& at) const;
  std::int64_t chunk_elements() const { return kept * lanes; }  ///< from a part of a row to the next

 private:
  void cut_rows(bool combines);
  void find_scans(const VectorCompute& compute, const std::vector<int>& combined_dims);
  void lay_scans(bool combines);
  void find_ragged();
  void find_shared(const VectorCompute& compute);

  std::vector<std::int64_t> extents_;
  std::vector<bool> reduced_;  ///< outer dims that are steps: combined ones, where there are any
  int lane_dim_ = 0;
  bool over_combined_ = false;  ///< rows of a register are combined ones
  bool nested_ = false;         ///< running sums of running sums
  bool backwards_ = false;      ///< a running sum from the last element to the first
  std::int64_t before_ = 0;     ///< lanes without elements before a row's first: a sum from the end finds its rows full
};

}  // namespace tilesim::isa
