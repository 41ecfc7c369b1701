// The layout of a vector compute's elements in registers.
#pragma once

#include <cstdint>
#include <vector>

#include "tilesim/tile/tile.hpp"
#include "tilesim/tile/vector_form.hpp"

namespace tilesim::isa {

/// The register form of a compute with given views.
struct RegisterForm : VectorForm {
  /// Steps go along the dim of running sums, in the order of the sum. If that is not the lane dim, `side` groups
  /// pass the steps together: `each` is [groups][steps][side], `by_group` [groups][side]. `cut`: rows may be split into
  /// chunks. `share`: without reductions, dims along which operands of one element per row are constant become steps,
  /// so that registers that share such operands are consecutive.
  RegisterForm(const VectorCompute& compute, std::int64_t lanes, std::int64_t rows, std::int64_t side = 1,
               bool cut = true, bool share = false);

  std::int64_t side = 1;
  /// For running sums with fewer rows than a register: a row of the compute is split into this many parts in separate
  /// register rows, which pass the steps together. The sums of preceding parts are computed first.
  std::int64_t chunks = 1;
  bool stepped() const { return steps > 1 || chunks > 1; }
  bool ragged = false;           ///< reductions include positions without elements
  bool lanes_at_end = false;     ///< lanes without elements are excluded from totals, not in each step
  std::int64_t ragged_from = 0;  ///< first step with positions without elements
  bool lane_scanned = false, steps_scanned = false;  ///< running sums along the lanes; along another dim
  bool scanned() const { return lane_scanned || steps_scanned; }
  std::int64_t scan_lanes = 1;  ///< number of lanes of a row with elements
  std::vector<Reach> reaches;   ///< reach of each input

  /// The position of an element; `index` has one number per dim.
  struct ElementPosition { std::int64_t group = 0, step = 0, row = 0, lane = 0, beside = 0; };
  ElementPosition place(const std::vector<std::int64_t>& index) const;
  Reach reach_of(const TileView& view) const;
  /// Index of this register among those that differ in all groups and steps.
  std::int64_t order(const ElementPosition& at) const;
  std::int64_t chunk_elements() const { return kept * lanes; }  ///< distance between parts of a row

 private:
  void cut_rows(bool combines);
  void find_scans(const VectorCompute& compute, const std::vector<int>& combined_dims);
  void lay_scans(bool combines);
  void find_ragged();
  void find_shared(const VectorCompute& compute);

  std::vector<std::int64_t> extents_;
  std::vector<bool> reduced_;  ///< outer dims that become steps: reduced dims, if any
  int lane_dim_ = 0;
  bool over_combined_ = false;  ///< the rows of a register are reduced
  bool nested_ = false;         ///< the compute has running sums of running sums
  bool backwards_ = false;      ///< running sums go from the last element to the first
  std::int64_t before_ = 0;     ///< lanes without elements before a row, since a backward sum needs full rows
};

}  // namespace tilesim::isa
