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
  /// What the vector unit reads behind a stage: a value per channel, or of the whole result's shape.
  struct Leaf {
    DType dtype = DType::f32;
    bool whole = false;
    friend auto operator<=>(const Leaf&, const Leaf&) = default;
  };
  struct Stage {
    bool there = false;
    DType weights = DType::f32, result = DType::f32;  ///< the result as the next stage reads it, or as it is stored
    std::array<std::int32_t, 4> functions{};  ///< behind it, per element: simple, multiply, divide, transcendental
    std::vector<Leaf> leaves;
    bool hidden_minor = false;  ///< in memory, of the weights: tiles of hidden channels are short runs
    friend auto operator<=>(const Stage&, const Stage&) = default;
  };

  std::int64_t lead = 1;                     ///< images, or stacked matrices
  std::int64_t x_rows = 1, x_columns = 1;    ///< of what is read
  std::int64_t rows_in = 1, columns_in = 1;  ///< of what the middle reads: the first stage's result
  std::int64_t rows = 1, columns = 1;        ///< of the result
  std::int64_t in = 1, hidden = 1, out = 1;  ///< channels: of what the first stage reads, between, of the last's result
  Window row, column;                        ///< of the middle
  Window first_row, first_column;            ///< of the first product, over all channels
  DType x = DType::f32;
  std::array<Stage, chain_stages> stages;
  friend auto operator<=>(const ChainProblem&, const ChainProblem&) = default;

  const Stage& stage(ChainStage which) const { return stages[static_cast<std::size_t>(which)]; }
  bool has(ChainStage which) const { return stage(which).there; }
  /// Rows of what the middle's window spans for so many rows of the result, and all columns, padding included.
  std::int64_t span_rows(std::int64_t results) const { return has(ChainStage::middle) ? row.span(results) : results; }
  std::int64_t span_columns() const { return has(ChainStage::middle) ? column.span(columns) : columns; }
  /// Of the first product's sums, beside the channels.
  std::int64_t first_taps() const { return first_row.taps * first_column.taps; }
  /// Channels of the result.
  std::int64_t stored() const { return has(ChainStage::last) ? out : hidden; }
};

/// What a block of rows loads for all hidden channels at once, instead of each tile its own: nothing, values per
/// channel and windows, or all weights.
enum class ChainHeld : std::uint8_t { none, small, all };

struct ChainPlan {
  std::int64_t rows = 1, hidden = 1;  ///< of a tile: rows of the result, hidden channels
  std::int64_t ends = 2;              ///< buffers of what a block of rows reads first and stores last
  ChainHeld held = ChainHeld::none;
  bool holds(ChainStage stage) const {
    return held == ChainHeld::all || (held == ChainHeld::small && stage == ChainStage::middle);
  }
  bool holds_leaves() const { return held != ChainHeld::none; }
  std::vector<SlotRing> buffers;
  double bytes = 0;             ///< between memory and chip
  double cycles = 0;            ///< of the kernel
  double computing = 0;         ///< of the unit that a core has most of
  double recomputed_flops = 0;  ///< of rows that neighbouring tiles both need
};

/// The fastest plan by the estimate, of those about as fast the one that moves least; none: no tile fits.
std::optional<ChainPlan> plan_chain(const ChainProblem& problem, const Share& machine);

/// The stages as separate kernels, at the least: each takes the longest of its units and of memory. What lies
/// between them is moved where `moved` says so, by stage.
struct ChainApart { double cycles = 0, bytes = 0; };
ChainApart chain_apart(const ChainProblem& problem, const Share& machine, const std::array<bool, chain_stages>& moved);

}  // namespace tilesim::mapping
