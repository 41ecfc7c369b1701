// The plan of consecutive products as one kernel: a product over channels, a window over each channel, a product over
// channels, any two of them or all three. Intermediate values stay in tiles of rows and hidden channels.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tilesim/base/dtype.hpp"
#include "tilesim/machine/share.hpp"
#include "tilesim/mapping/slot_ring.hpp"

namespace tilesim::mapping {

enum class ChainStage : std::uint8_t { first, middle, last };
constexpr std::size_t chain_stages = 3;

struct ChainProblem {
  struct Window {
    std::int64_t taps = 1, stride = 1, dilation = 1, pad = 0;
    std::int64_t span(std::int64_t results) const { return (results - 1) * stride + (taps - 1) * dilation + 1; }
    friend auto operator<=>(const Window&, const Window&) = default;
  };
  /// An input of the vector unit after a stage: one value per channel, or one per element of the result.
  struct Leaf {
    DType dtype = DType::f32;
    bool whole = false;
    friend auto operator<=>(const Leaf&, const Leaf&) = default;
  };
  struct Stage {
    bool there = false;
    DType weights = DType::f32, result = DType::f32;  ///< result: as read by the next stage, or as stored
    std::array<std::int32_t, 4> functions{};          ///< after the stage, per element: simple, multiply, divide,
                                                      ///< transcendental
    std::vector<Leaf> leaves;
    bool hidden_minor = false;  ///< minor axis of the weights in memory is the hidden one: tiles are short runs
    friend auto operator<=>(const Stage&, const Stage&) = default;
  };

  std::int64_t lead = 1;                     ///< number of images or stacked matrices
  std::int64_t x_rows = 1, x_columns = 1;    ///< extents of the input
  std::int64_t rows_in = 1, columns_in = 1;  ///< extents of the first stage's result
  std::int64_t rows = 1, columns = 1;        ///< extents of the result
  std::int64_t in = 1, hidden = 1, out = 1;  ///< channels: of the first stage's input, between stages, of the result
  Window row, column;                        ///< windows of the middle stage
  Window first_row, first_column;            ///< windows of the first product
  DType x = DType::f32;
  std::array<Stage, chain_stages> stages;
  friend auto operator<=>(const ChainProblem&, const ChainProblem&) = default;

  const Stage& stage(ChainStage which) const { return stages[static_cast<std::size_t>(which)]; }
  bool has(ChainStage which) const { return stage(which).there; }
  /// Rows in the middle's window for this many result rows; likewise for all columns. Includes padding.
  std::int64_t span_rows(std::int64_t results) const { return has(ChainStage::middle) ? row.span(results) : results; }
  std::int64_t span_columns() const { return has(ChainStage::middle) ? column.span(columns) : columns; }
  /// Window positions that the first product sums, besides channels.
  std::int64_t first_taps() const { return first_row.taps * first_column.taps; }
  /// Number of channels of the result.
  std::int64_t stored() const { return has(ChainStage::last) ? out : hidden; }
};

/// Operands that a block of rows loads once for all hidden channels, instead of per tile: none, values per channel and
/// windows, or all weights.
enum class ChainHeld : std::uint8_t { none, small, all };

struct ChainPlan {
  std::int64_t rows = 1, hidden = 1;  ///< per tile: result rows, hidden channels
  std::int64_t ends = 2;              ///< buffers of a row block's first input and of its result
  ChainHeld held = ChainHeld::none;
  bool holds(ChainStage stage) const {
    return held == ChainHeld::all || (held == ChainHeld::small && stage == ChainStage::middle);
  }
  bool holds_leaves() const { return held != ChainHeld::none; }
  std::vector<SlotRing> buffers;
  double bytes = 0;             ///< bytes between memory and chip
  double cycles = 0;            ///< cycles of the kernel
  double computing = 0;         ///< cycles of the busiest unit
  double recomputed_flops = 0;  ///< flops of rows that adjacent tiles both compute
};

/// The plan with the least estimated time; among about equal times the fewest bytes. Empty: no tile fits.
std::optional<ChainPlan> plan_chain(const ChainProblem& problem, const Share& machine);

/// Lower bound for the stages as separate kernels: each takes the longest of its units and memory. `moved`: by stage,
/// whether the values between stages are moved.
struct ChainApart { double cycles = 0, bytes = 0; };
ChainApart chain_apart(const ChainProblem& problem, const Share& machine, const std::array<bool, chain_stages>& moved);

}  // namespace tilesim::mapping
