// The layout of a vector compute's iteration space in registers.
#pragma once

#include <cstdint>

namespace tilesim {

/// The layout of a vector compute in registers (or groups of them) of `rows` rows with `lanes` elements: `groups` of
/// registers, each with `steps` consecutive ones if results are combined. Groups are processed in blocks, step by step,
/// and within a step one group after the other.
struct VectorForm {
  /// The dims over which an operand varies:
  ///   each     [blocks][steps][groups of the block][rows][lanes]
  ///   by_group [groups][rows][lanes], the same in all steps
  ///   by_step  [steps][rows][lanes], the same in all groups
  ///   by_row   as by_group, but one element for each row of lanes
  ///   one      a single element
  enum class Reach : std::uint8_t { each, by_group, by_step, by_row, one };
  /// The meaning of several stretches of `lanes` elements along the lane dim: combined; separate rows, if there are too
  /// few rows; steps; groups.
  enum class Stretches : std::uint8_t { single, combined, rows, steps, groups };

  /// Bits of the dims along which an operand varies: lanes; outer dims with separate results; outer combined dims.
  static constexpr unsigned along_lanes = 1, along_kept = 2, along_combined = 4;

  /// Maximum number of steps per kernel iteration, if results are combined.
  static constexpr std::int64_t most_together = 8;

  VectorForm() = default;
  /// `width`: elements along the lanes; `kept`, `combined`: outer elements, without and with combining.
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

  /// The reach of an operand that varies along the given bits.
  Reach reach(unsigned where) const;
  std::int64_t elements() const { return rows * lanes; }  ///< of a register group
  std::int64_t all_kept() const { return kept * (stretched == Stretches::rows ? stretches : 1); }
  std::int64_t all_combined() const { return combined * (stretched == Stretches::combined ? stretches : 1); }
  /// Groups per block for `held` kept values per group in registers of 2^lmul; all groups without kept values.
  std::int64_t block_for(std::int64_t held, int lmul) const;
  /// Number of totals per group that steps add to in turn, so that an addition does not wait for the previous one.
  std::int64_t totals_for(std::int64_t latency, int lmul) const;
};

}  // namespace tilesim
