// The effect of one vector instruction on pipes and registers, in closed form, computed once for each (instruction,
// vtype, vl).
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "tilesim/isa/pipeline/arrays.hpp"
#include "tilesim/isa/pipeline/moves.hpp"
#include "tilesim/isa/state/hart.hpp"
#include "tilesim/isa/table/instruction_set.hpp"

namespace tilesim::isa {

enum class Field : std::uint8_t { rd, rs1, rs2, mask };

/// Times of one vector register: result ready (first and last beat), last read (first and last beat).
struct alignas(32) Lanes {
  std::array<Ticks, 4> in{};

  void raise(const Lanes& to, const Lanes& less) {
    for (unsigned j = 0; j < 4; ++j) in[j] = std::max(in[j], to.in[j] - less.in[j]);
  }
};

/// Registers that an instruction reads or writes. Register k of the group is accessed from `first` + k · `each` after
/// the start, for `within`.
struct Footprint {
  Field field = Field::rd;
  bool reads = false, writes = false;
  std::uint8_t registers = 0;
  Ticks each = 0, within = 0, last_within = 0;
  Ticks written = 0;  ///< delay of the first beat's write; reads start at 0
  /// Delays of reads and writes after the start, for the first register and for the last one.
  Lanes read, read_last, write, write_last;

  /// The number of its first register; masks are in v0.
  unsigned register_in(const Op& op) const {
    const unsigned of[] = {op.rd, op.rs1, op.rs2, 0};
    return of[static_cast<std::size_t>(field)];
  }
  bool one_beat() const { return (registers == 1 ? last_within : within) == 0; }  ///< the first register has one beat
  /// Results are readable only after the whole instruction has completed.
  bool whole = false;
};

struct InstructionPlan {
  std::uint64_t key = 0;
  Ticks held = cycle;            ///< time that it occupies its pipe
  Ticks result = cycle;          ///< time from start to last result: for scalar results, and for the end of the run
  std::uint32_t operations = 0;  ///< arithmetic operations on elements, two per multiply-add; masked-off ones count
  std::uint32_t bytes = 0;       ///< bytes of memory accessed
  std::uint8_t pipes = 1;
  std::uint8_t footprints = 0;
  bool at_end = false;
  std::array<Footprint, 4> footprint;
};

/// Memory accesses of a vector load or store: unknown from scalar registers, contiguous, or strided.
enum class Accesses : std::uint8_t { none, row, apart };

/// Timing that does not depend on vtype, by instruction.
struct StaticTiming {
  enum Kind : std::uint8_t { scalar, branch, jump, vset, vector };
  Kind kind = scalar;
  TimingClass timing_class = TimingClass::vector;
  std::uint8_t pipe = 0;  ///< a PipeKind, or beyond these a unit of the core
  bool loads = false, stores = false;
  Accesses accesses = Accesses::none;
  ArrayWork work = ArrayWork::none;
  MoveWork move = MoveWork::none;
  std::uint8_t sources = 0;             ///< number of scalar registers read
  std::array<std::uint8_t, 3> slots{};  ///< fields of the Op that name them (1, 2, 3: rs1, rs2, rs3)
  std::array<std::uint8_t, 3> bases{};  ///< register files of these: 0: x, 33: f
  std::uint8_t destination = 255;       ///< register file of rd; 255: none
  Ticks latency = cycle;
  std::uint8_t divider = 0;                   ///< of a scalar division: number of its unit; 0: none
  Ticks interval = 0;                         ///< time until the divider is free
  std::shared_ptr<const ClassTiming> custom;  ///< replaces the class's timing
  std::uint8_t operations = 0;                ///< per element, or of a scalar float instruction; multiply-adds: two
  std::uint8_t width = 0;                     ///< of scalar floats and accesses: log2 of the bytes
};

/// Timings of all instructions of a set, by instruction id.
std::vector<StaticTiming> static_timings(const InstructionSet& set, const CoreTiming& core);

InstructionPlan make_plan(const CoreTiming& core, const InstructionInfo& info, const StaticTiming& fixed, const Op& op,
                          const VectorState& v);

}  // namespace tilesim::isa
