// The effect of one vector instruction on pipes and registers, computed once in closed form for each (instruction,
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

/// Times of one vector register: its result is ready, first and last beat; its last read, first and last beat.
struct alignas(32) Lanes {
  std::array<Ticks, 4> in{};

  void raise(const Lanes& to, const Lanes& less) {
    for (unsigned j = 0; j < 4; ++j) in[j] = std::max(in[j], to.in[j] - less.in[j]);
  }
};

/// Registers that an instruction reads or writes: register k of the group is read (written) from `first` + k · `each`
/// after the start, until `within` later.
struct Footprint {
  Field field = Field::rd;
  bool reads = false, writes = false;
  std::uint8_t registers = 0;
  Ticks each = 0, within = 0, last_within = 0;
  Ticks written = 0;  ///< of the first beat; read times start at 0
  /// Delays after the start of reads and writes of the first register; those of the last one differ.
  Lanes read, read_last, write, write_last;

  /// Its first register; masks are in v0.
  unsigned register_in(const Op& op) const {
    const unsigned of[] = {op.rd, op.rs1, op.rs2, 0};
    return of[static_cast<std::size_t>(field)];
  }
  bool one_beat() const { return (registers == 1 ? last_within : within) == 0; }  ///< of the first register
  /// Results are readable only when the whole instruction has completed.
  bool whole = false;
};

struct InstructionPlan {
  std::uint64_t key = 0;
  Ticks held = cycle;            ///< time for which it occupies its pipe
  Ticks result = cycle;          ///< start to last result: for scalar results, and the end of the run
  std::uint32_t operations = 0;  ///< arithmetic operations on elements, two per multiply-add; masked-off ones count
  std::uint32_t bytes = 0;       ///< bytes of memory accessed
  std::uint8_t pipes = 1;
  std::uint8_t footprints = 0;
  bool at_end = false;
  std::array<Footprint, 4> footprint;
};

/// Memory accesses of a vector load or store: not given by scalar registers, contiguous, or strided.
enum class Accesses : std::uint8_t { none, row, apart };

/// Timing that does not depend on vtype, by instruction.
struct StaticTiming {
  enum Kind : std::uint8_t { scalar, branch, jump, vset, vector };
  Kind kind = scalar;
  TimingClass timing_class = TimingClass::vector;
  std::uint8_t pipe = 0;  ///< a PipeKind, or after those a unit of the core
  bool loads = false, stores = false;
  Accesses accesses = Accesses::none;
  ArrayWork work = ArrayWork::none;
  MoveWork move = MoveWork::none;
  std::uint8_t sources = 0;             ///< number of scalar registers read
  std::array<std::uint8_t, 3> slots{};  ///< their fields of the Op (1, 2, 3: rs1, rs2, rs3)
  std::array<std::uint8_t, 3> bases{};  ///< 0: x, 33: f
  std::uint8_t destination = 255;       ///< base of rd; 255: none
  Ticks latency = cycle;
  std::uint8_t divider = 0;                   ///< scalar divisions: number of their unit; 0: none
  Ticks interval = 0;                         ///< time until it accepts the next
  std::shared_ptr<const ClassTiming> custom;  ///< replaces that of the class
  std::uint8_t operations = 0;                ///< per element, or of a scalar float instruction; two for a multiply-add
  std::uint8_t width = 0;                     ///< scalar floats and accesses: log2 of the bytes
};

/// Timings of all instructions of a set, by id.
std::vector<StaticTiming> static_timings(const InstructionSet& set, const CoreTiming& core);

InstructionPlan make_plan(const CoreTiming& core, const InstructionInfo& info, const StaticTiming& fixed, const Op& op,
                          const VectorState& v);

}  // namespace tilesim::isa
