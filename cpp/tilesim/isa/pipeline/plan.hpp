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

/// Times of a register: its result is there, first and last beat; it is read no more, first and last beat. One vector
/// register of the processor.
struct alignas(32) Lanes {
  std::array<Ticks, 4> in{};

  void raise(const Lanes& to, const Lanes& less) {
    for (unsigned j = 0; j < 4; ++j) in[j] = std::max(in[j], to.in[j] - less.in[j]);
  }
};

/// Registers that an instruction reads or writes: those of number k in the group are read (written) from `first` +
/// k · `each` after its start, to `within` later.
struct Footprint {
  Field field = Field::rd;
  bool reads = false, writes = false;
  std::uint8_t registers = 0;
  Ticks each = 0, within = 0, last_within = 0;
  Ticks written = 0;  ///< of the first beat; read times begin at 0
  /// How long after the start the first register is read; what is written must wait for. The last register's differ.
  Lanes read, read_last, write, write_last;

  /// Its first register; masks lie in v0.
  unsigned register_in(const Op& op) const {
    const unsigned of[] = {op.rd, op.rs1, op.rs2, 0};
    return of[static_cast<std::size_t>(field)];
  }
  bool one_beat() const { return (registers == 1 ? last_within : within) == 0; }  ///< the first register's
  /// What is written is there when all of the instruction is over.
  bool whole = false;
};

struct InstructionPlan {
  std::uint64_t key = 0;
  Ticks held = cycle;            ///< how long it holds its pipe
  Ticks result = cycle;          ///< from its start to the last result: scalar ones, and the end of the run
  std::uint32_t operations = 0;  ///< of arithmetic on elements, two of a multiply-add; masked-off ones count
  std::uint32_t bytes = 0;       ///< read or written in memory
  std::uint8_t pipes = 1;
  std::uint8_t footprints = 0;
  bool at_end = false;
  std::array<Footprint, 4> footprint;
};

/// Where a vector load or store finds its elements: nowhere that a scalar register tells, in a row, or apart.
enum class Accesses : std::uint8_t { none, row, apart };

/// What does not depend on vtype, by instruction.
struct StaticTiming {
  enum Kind : std::uint8_t { scalar, branch, jump, vset, vector };
  Kind kind = scalar;
  TimingClass timing_class = TimingClass::vector;
  std::uint8_t pipe = 0;  ///< a PipeKind, or behind those a unit of the core's own
  bool loads = false, stores = false;
  Accesses accesses = Accesses::none;
  ArrayWork work = ArrayWork::none;
  MoveWork move = MoveWork::none;
  std::uint8_t sources = 0;             ///< number of scalar registers read
  std::array<std::uint8_t, 3> slots{};  ///< which fields of the Op (1, 2, 3: rs1, rs2, rs3)
  std::array<std::uint8_t, 3> bases{};  ///< 0: x, 33: f
  std::uint8_t destination = 255;       ///< base of rd; 255: none
  Ticks latency = cycle;
  std::uint8_t divider = 0;                   ///< of scalar divisions: number of their unit; 0: none
  Ticks interval = 0;                         ///< until it takes the next
  std::shared_ptr<const ClassTiming> custom;  ///< instead of that of the class
  std::uint8_t operations = 0;                ///< an element's, or of a scalar float instruction; two of a multiply-add
  std::uint8_t width = 0;                     ///< scalar floats and scalar accesses: log2 of the bytes
};

/// Of all instructions of a set, by id.
std::vector<StaticTiming> static_timings(const InstructionSet& set, const CoreTiming& core);

InstructionPlan make_plan(const CoreTiming& core, const InstructionInfo& info, const StaticTiming& fixed, const Op& op,
                          const VectorState& v);

}  // namespace tilesim::isa
