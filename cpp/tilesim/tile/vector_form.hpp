// The layout of a vector compute's iteration space in registers.
#pragma once

#include <cstdint>

namespace tilesim {

/// Registers (groups of them) of `rows` rows of `lanes` elements. A compute is `groups` of them, each made of `steps`
/// that follow each other where results are combined. Groups are worked on in blocks, side by side: step by step, and
/// in each step one after the other.
struct VectorForm {
  /// What an operand is the same for:
  ///   each     [blocks][steps][groups of the block][rows][lanes]
  ///   by_group [groups][rows][lanes], the same in all steps
  ///   by_step  [steps][rows][lanes], the same in all groups
  ///   by_row   as by_group, but one element for each row of lanes
  ///   one      a single element
  enum class Reach : std::uint8_t { each, by_group, by_step, by_row, one };
  /// What stretches of `lanes` elements are, where there are several along the lanes: combined ones; separate rows,
  /// where there are too few; steps; groups.
  enum class Stretches : std::uint8_t { single, combined, rows, steps, groups };

  /// Where an operand differs: from lane to lane; outside of the lanes, where results differ; where they are combined.
  static constexpr unsigned along_lanes = 1, along_kept = 2, along_combined = 4;

  /// Steps of a group that are one iteration of a kernel, at most, where results are combined.
  static constexpr std::int64_t most_together = 8;

  VectorForm() = default;
  /// `width`: elements along the lanes; `kept`, `combined`: those outside, by whether results are combined over them.
  VectorForm(std::int64_t width, std::int64_t kept, std::int64_t combined, bool combines, bool lane_reduced,
             std::int64_t lanes, std::int64_t rows);

  std::int64_t lanes = 1, rows = 1;
  std::int64_t groups = 1, steps = 1;
  std::int64_t block = 1;      ///< groups side by side; the last block may have fewer
  std::int64_t last_rows = 1;  ///< of the last group, where no rows are combined
  bool lane_reduced = false, rows_reduced = false, steps_reduced = false;
  std::int64_t width = 1, kept = 1, combined = 1;
  std::int64_t stretches = 1;
  Stretches stretched = Stretches::single;

  /// Of an operand that differs so: a sum of the numbers above.
  Reach reach(unsigned where) const;
  std::int64_t elements() const { return rows * lanes; }  ///< of a register group
  std::int64_t all_kept() const { return kept * (stretched == Stretches::rows ? stretches : 1); }
  std::int64_t all_combined() const { return combined * (stretched == Stretches::combined ? stretches : 1); }
  /// Side by side with `held` values of each group in 2^lmul registers: all without held values, else few.
  std::int64_t block_for(std::int64_t held, int lmul) const;
  /// Totals of a group that its steps add to in turn, so that an addition need not wait for the one before it.
  std::int64_t totals_for(std::int64_t latency, int lmul) const;
};

}  // namespace tilesim
