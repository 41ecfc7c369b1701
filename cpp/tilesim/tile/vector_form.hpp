// How the elements of a vector compute are distributed over registers.
#pragma once

#include <cstdint>

namespace tilesim {

/// The layout of a vector compute in registers (or register groups) of `rows` rows with `lanes` elements: `groups`
/// registers; if results are combined, each group has `steps` consecutive registers. A kernel processes groups in
/// blocks, step by step; within a step, one group after another.
struct VectorForm {
  /// The registers over which an operand varies:
  ///   each     [blocks][steps][groups of the block][rows][lanes]
  ///   by_group [groups][rows][lanes], the same in all steps
  ///   by_step  [steps][rows][lanes], the same in all groups
  ///   by_row   as by_group, but one element for each row of lanes
  ///   one      a single element
  enum class Reach : std::uint8_t { each, by_group, by_step, by_row, one };
  /// What several stretches of `lanes` elements along the lane dim become: combined values; separate rows if there are
  /// too few rows; steps; or groups.
  enum class Stretches : std::uint8_t { single, combined, rows, steps, groups };

  /// Bits for the dims along which an operand varies: lanes; outer dims that are kept; outer dims that are combined.
  static constexpr unsigned along_lanes = 1, along_kept = 2, along_combined = 4;

  /// Most steps per kernel iteration, if results are combined.
  static constexpr std::int64_t most_together = 8;

  VectorForm() = default;
  /// `width`: elements along the lanes; `kept`, `combined`: numbers of outer elements of kept and of combined dims.
  VectorForm(std::int64_t width, std::int64_t kept, std::int64_t combined, bool combines, bool lane_reduced,
             std::int64_t lanes, std::int64_t rows);

  std::int64_t lanes = 1, rows = 1;
  std::int64_t groups = 1, steps = 1;
  std::int64_t block = 1;      ///< groups per block; the last block may have fewer
  std::int64_t last_rows = 1;  ///< rows of the last group, if no rows are combined
  bool lane_reduced = false, rows_reduced = false, steps_reduced = false;
  std::int64_t width = 1, kept = 1, combined = 1;
  std::int64_t stretches = 1;
  Stretches stretched = Stretches::single;

  /// The reach of an operand that varies along the dims in `where`.
  Reach reach(unsigned where) const;
  std::int64_t elements() const { return rows * lanes; }  ///< elements of a register group
  std::int64_t all_kept() const { return kept * (stretched == Stretches::rows ? stretches : 1); }
  std::int64_t all_combined() const { return combined * (stretched == Stretches::combined ? stretches : 1); }
  /// Groups per block if each group keeps `held` values in groups of 2^lmul registers; all groups if `held` is 0.
  std::int64_t block_for(std::int64_t held, int lmul) const;
  /// Number of totals per group; steps add to the totals in turn, so that no addition waits for the previous one.
  std::int64_t totals_for(std::int64_t latency, int lmul) const;
};

}  // namespace tilesim
