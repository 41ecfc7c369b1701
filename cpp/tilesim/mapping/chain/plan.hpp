// The plan of two or three consecutive operations as one kernel: a product over channels, a window per channel, a
// product over channels. Intermediate values stay on chip in tiles of rows and hidden channels.
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
  /// An input of the vector unit after a stage. `whole`: one value per element of the result; false: per channel.
  struct Leaf {
    DType dtype = DType::f32;
    bool whole = false;
    friend auto operator<=>(const Leaf&, const Leaf&) = default;
  };
  struct Stage {
    bool there = false;
    DType weights = DType::f32, result = DType::f32;  ///< result: as the next stage reads it, or as stored
    std::array<std::int32_t, 4> functions{};  ///< per element after the stage: simple, multiply, divide, transcendental
    std::vector<Leaf> leaves;
    bool hidden_minor = false;  ///< the weights' minor axis is the hidden one: tiles are short runs in memory
    friend auto operator<=>(const Stage&, const Stage&) = default;
  };

  std::int64_t lead = 1;                     ///< number of images or stacked matrices
  std::int64_t x_rows = 1, x_columns = 1;    ///< extents of the input
  std::int64_t rows_in = 1, columns_in = 1;  ///< extents of the first stage's result
  std::int64_t rows = 1, columns = 1;        ///< extents of the result
  std::int64_t in = 1, hidden = 1, out = 1;  ///< channels of the input, between stages, of the result
  Window row, column;                        ///< windows of the middle stage
  Window first_row, first_column;            ///< windows of the first product
  DType x = DType::f32;
  std::array<Stage, chain_stages> stages;
  friend auto operator<=>(const ChainProblem&, const ChainProblem&) = default;

  const Stage& stage(ChainStage which) const { return stages[static_cast<std::size_t>(which)]; }
  bool has(ChainStage which) const { return stage(which).there; }
  /// Input rows of the middle stage for this many result rows, and input columns for all columns; includes padding.
  std::int64_t span_rows(std::int64_t results) const { return has(ChainStage::middle) ? row.span(results) : results; }
  std::int64_t span_columns() const { return has(ChainStage::middle) ? column.span(columns) : columns; }
  /// Number of window positions that the first product sums for each channel.
  std::int64_t first_taps() const { return first_row.taps * first_column.taps; }
  /// Number of channels of the result.
  std::int64_t stored() const { return has(ChainStage::last) ? out : hidden; }
};

/// Operands that a block of rows loads once for all hidden channels instead of per tile: none; values per channel and
/// windows; or all weights.
enum class ChainHeld : std::uint8_t { none, small, all };

struct ChainPlan {
  std::int64_t rows = 1, hidden = 1;  ///< per tile: result rows, hidden channels
  std::int64_t ends = 2;              ///< buffers of a row block's first input, and of its result
  ChainHeld held = ChainHeld::none;
  bool holds(ChainStage stage) const {
    return held == ChainHeld::all || (held == ChainHeld::small && stage == ChainStage::middle);
  }
  bool holds_leaves() const { return held != ChainHeld::none; }
  std::vector<SlotRing> buffers;
  double bytes = 0;             ///< bytes between memory and chip
  double cycles = 0;            ///< cycles of the kernel
  double computing = 0;         ///< cycles of the busiest unit
  double recomputed_flops = 0;  ///< flops of rows that two adjacent tiles both compute
};

/// The plan with the least estimated time; of plans with about equal times, the one with the fewest bytes. Empty: no
/// tile fits.
std::optional<ChainPlan> plan_chain(const ChainProblem& problem, const Share& machine);

/// Lower bound for the stages as separate kernels: each stage takes the longest of unit times and memory time. `moved`:
/// per stage, whether memory traffic includes the values between stages.
struct ChainApart { double cycles = 0, bytes = 0; };
ChainApart chain_apart(const ChainProblem& problem, const Share& machine, const std::array<bool, chain_stages>& moved);

}  // namespace tilesim::mapping
