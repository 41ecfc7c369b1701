// Writes loops of vector loads and stores that move elements from one operand to another.
#pragma once

#include <vector>

#include "tilesim/isa/pipeline/timing.hpp"
#include "tilesim/isa/schedule/code.hpp"
#include "tilesim/isa/state/memory.hpp"
#include "tilesim/tile/movement.hpp"

namespace tilesim::isa {

/// `elements` of `width` bits, `in` and `out` bytes apart on either side, for every point of `loops` (steps in bytes,
/// outer to inner).
struct MovePass {
  unsigned width = 8;
  std::int64_t elements = 1, in = 1, out = 1;
  std::vector<MoveDim> loops;
  Address from = 0, to = 0;
  /// Distances of the elements in bytes where they are not multiples of a step: `in`, `out` are not looked at then.
  std::vector<std::uint32_t> in_table, out_table;
  /// In between, each square of parts of the elements is turned: parts of so many bits; 0: nothing is.
  unsigned part = 0;

  bool unit_in() const { return in_table.empty() && in == static_cast<std::int64_t>(width / 8); }
  bool unit_out() const { return out_table.empty() && out == static_cast<std::int64_t>(width / 8); }
  std::int64_t points() const;
  /// Registers of a group, as a power of two.
  int group(const CoreTiming& core) const;
  /// All of it is read before anything is written.
  bool held(const CoreTiming& core) const { return !tabled() && points() <= 32 >> group(core); }
  bool tabled() const { return !in_table.empty() || !out_table.empty() || part > 0; }
};

/// Elements of that width which a group of registers has at most.
std::int64_t most_elements(const CoreTiming& core, unsigned width);
/// About what a pass takes, in cycles: its ports.
double cycles_of(const CoreTiming& core, const MovePass& pass);
/// Elements that are too many for registers follow as loops; a shorter rest as a separate pass.
std::vector<MovePass> split(const MovePass& pass, std::int64_t most);

/// One pass; Unsupported for more loops than there are counters.
void write_pass(Code& code, const CoreTiming& core, const MovePass& pass);

/// A move in bytes between two addresses.
struct Placed {
  std::vector<MoveDim> dims;
  std::int64_t element = 1;
  Address from = 0, to = 0;
};
using Passes = std::vector<MovePass>;
double cycles_of(const CoreTiming& core, const Passes& passes);
/// The best ones first; at least one. `tables`: also those whose registers take elements by distances.
std::vector<Passes> ways(const CoreTiming& core, const Placed& move, bool tables = true);

/// A move in bytes: of 4-bit elements where bytes hold neighbours on both sides. Unsupported otherwise.
Move in_bytes(const Move& move, DType dtype);

}  // namespace tilesim::isa
