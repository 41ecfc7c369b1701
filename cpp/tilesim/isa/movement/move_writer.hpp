// Writes loops of vector loads and stores that move elements from one operand to another.
#pragma once

#include <vector>

#include "tilesim/isa/pipeline/timing.hpp"
#include "tilesim/isa/schedule/code.hpp"
#include "tilesim/isa/state/memory.hpp"
#include "tilesim/tile/movement.hpp"

namespace tilesim::isa {

/// Moves `elements` of `width` bits with strides of `in` and `out` bytes, for every point of `loops` (steps in bytes,
/// outer to inner).
struct MovePass {
  unsigned width = 8;
  std::int64_t elements = 1, in = 1, out = 1;
  std::vector<MoveDim> loops;
  Address from = 0, to = 0;
  /// Offsets of the elements in bytes, if they have no common stride; `in` and `out` are then ignored.
  std::vector<std::uint32_t> in_table, out_table;
  /// Transposes each square of parts of this many bits in between; 0: none.
  unsigned part = 0;

  bool unit_in() const { return in_table.empty() && in == static_cast<std::int64_t>(width / 8); }
  bool unit_out() const { return out_table.empty() && out == static_cast<std::int64_t>(width / 8); }
  std::int64_t points() const;
  /// Registers per group, as a power of two.
  int group(const CoreTiming& core) const;
  /// Reads everything before any write.
  bool held(const CoreTiming& core) const { return !tabled() && points() <= 32 >> group(core); }
  bool tabled() const { return !in_table.empty() || !out_table.empty() || part > 0; }
};

/// Most elements of this width per group of registers.
std::int64_t most_elements(const CoreTiming& core, unsigned width);
/// Approximate cycles of a pass on its ports.
double cycles_of(const CoreTiming& core, const MovePass& pass);
/// Splits off elements that exceed the registers as loops, and a shorter rest as a separate pass.
std::vector<MovePass> split(const MovePass& pass, std::int64_t most);

/// Writes one pass; Unsupported for more loops than counters.
void write_pass(Code& code, const CoreTiming& core, const MovePass& pass);

/// A move in bytes between two addresses.
struct Placed {
  std::vector<MoveDim> dims;
  std::int64_t element = 1;
  Address from = 0, to = 0;
};
using Passes = std::vector<MovePass>;
double cycles_of(const CoreTiming& core, const Passes& passes);
/// Ways to move, best first, at least one. `tables`: includes those with registers of offsets.
std::vector<Passes> ways(const CoreTiming& core, const Placed& move, bool tables = true);

/// A move in bytes; 4-bit elements need both elements of a byte together on both sides. Unsupported otherwise.
Move in_bytes(const Move& move, DType dtype);

}  // namespace tilesim::isa
