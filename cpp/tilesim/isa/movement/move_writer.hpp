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
  /// Byte offsets of the elements, if they have no common stride; `in` and `out` are then ignored.
  std::vector<std::uint32_t> in_table, out_table;
  /// Transposes each square of parts of this many bits between load and store; 0: no transposition.
  unsigned part = 0;

  bool unit_in() const { return in_table.empty() && in == static_cast<std::int64_t>(width / 8); }
  bool unit_out() const { return out_table.empty() && out == static_cast<std::int64_t>(width / 8); }
  std::int64_t points() const;
  /// log2 of the registers per group.
  int group(const CoreTiming& core) const;
  /// Whether all loads precede all stores.
  bool held(const CoreTiming& core) const { return !tabled() && points() <= 32 >> group(core); }
  bool tabled() const { return !in_table.empty() || !out_table.empty() || part > 0; }
};

/// Most elements of this width per group of registers.
std::int64_t most_elements(const CoreTiming& core, unsigned width);
/// Approximate cycles of a pass on its ports.
double cycles_of(const CoreTiming& core, const MovePass& pass);
/// Turns elements that exceed the registers into loops, and a shorter rest into a separate pass.
std::vector<MovePass> split(const MovePass& pass, std::int64_t most);

/// Writes one pass; throws Unsupported for more loops than counters.
void write_pass(Code& code, const CoreTiming& core, const MovePass& pass);

/// A move in bytes between two addresses.
struct Placed {
  std::vector<MoveDim> dims;
  std::int64_t element = 1;
  Address from = 0, to = 0;
};
using Passes = std::vector<MovePass>;
double cycles_of(const CoreTiming& core, const Passes& passes);
/// Candidate passes, best first, at least one. `tables`: includes those with offset tables.
std::vector<Passes> ways(const CoreTiming& core, const Placed& move, bool tables = true);

/// A move in bytes; 4-bit elements need both elements of a byte together on both sides, else it throws Unsupported.
Move in_bytes(const Move& move, DType dtype);

}  // namespace tilesim::isa
