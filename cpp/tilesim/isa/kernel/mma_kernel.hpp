// Products on a systolic array: weights are loaded early, rows pushed, and results taken after their pass.
//
// Operands have the array's memory layout, in which DMA writes them: blocks of `rows` (of weights: rows × columns)
// elements, the last ones padded with zeros:
//   moving  [batch][taps][blocks of depth][moving rows][rows]
//   kept    [batch][blocks across][taps][blocks of depth][rows][columns]
//   sums    [batch][blocks across][moving rows][columns], 32 bits each
#pragma once

#include <compare>

#include "tilesim/base/dtype.hpp"
#include "tilesim/isa/pipeline/timing.hpp"
#include "tilesim/isa/schedule/code.hpp"
#include "tilesim/isa/state/memory.hpp"

namespace tilesim::isa {

/// A product as an array computes it: a moving and a kept (stationary) operand.
struct MmaForm {
  std::int64_t batch = 1, taps = 1, depth = 1, across = 1;
  std::int64_t moving = 1;  ///< number of rows
  std::int64_t run = 1;     ///< contiguous rows: windows interrupt them
  DType moving_type = DType::f32, kept_type = DType::f32;
  bool accumulate = false;
  bool resident = false;  ///< the array already holds the only set of weights

  friend auto operator<=>(const MmaForm&, const MmaForm&) = default;
};

struct MmaAddresses { Address moving = 0, kept = 0, sums = 0; };

/// Bytes of the three operands in memory.
struct MmaBytes { std::int64_t moving = 0, kept = 0, sums = 0; };
MmaBytes bytes_of(const CoreTiming& core, const MmaForm& form);

/// Throws UserError or Unsupported if the core's arrays or registers cannot compute it.
Kernel mma_kernel(const InstructionSet& set, const CoreTiming& core, const MmaForm& form, const MmaAddresses& at,
                  unsigned array = 0);

}  // namespace tilesim::isa
