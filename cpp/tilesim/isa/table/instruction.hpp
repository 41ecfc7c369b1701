// The declaration of an instruction. Decoder, assembler, disassembler, header, documentation and tests derive from it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tilesim/base/functions/functions.hpp"
#include "tilesim/isa/state/op.hpp"

namespace tilesim::isa {

struct Encoding { std::uint32_t match = 0, mask = 0; };

/// The pipe that executes an instruction.
enum class Unit : std::uint8_t { scalar, load, store, arithmetic, special, cross_lane, matrix, control };
const char* unit_name(Unit unit);

/// Properties of an instruction besides its meaning.
enum Trait : std::uint32_t {
  ends_block = 1 << 0,  ///< the next instruction in memory may not be the next to execute
  is_branch = 1 << 1,   ///< conditional
  is_jump = 1 << 2,
  is_load = 1 << 3,
  is_store = 1 << 4,
  is_vector = 1 << 5,
  sets_flags = 1 << 6,      ///< changes fflags
  reads_rounding = 1 << 7,  ///< reads frm, unless its rm field selects a mode
  sets_vxsat = 1 << 8,
  reads_vxrm = 1 << 9,
  reads_vd = 1 << 10,  ///< the old vd is an operand, as in vmacc, not only an undisturbed value
  sets_vl = 1 << 11,
  any_vstart = 1 << 12,     ///< continues at vstart (loads and stores); others trap unless vstart is 0
  ignores_vtype = 1 << 13,  ///< whole registers: valid for any vtype
  overlap_never = 1 << 14,  ///< vd must not overlap any source: vrgather, vslideup, viota, vcompress
  is_compressed = 1 << 15,
  never_masked = 1 << 17,        ///< the `vm` bit has another meaning: VCIX
  scalar_destination = 1 << 16,  ///< writes element 0 of vd only: reductions, vmv.s.x
};

/// The registers of a vector operand.
struct Group {
  enum Kind : std::uint8_t {
    none,
    group,    ///< EEW = SEW × 2^scale, EMUL = LMUL × 2^scale
    fixed,    ///< EEW = 2^scale bits, EMUL = EEW / SEW × LMUL: loads, stores, indices
    mask,     ///< one register of mask bits
    element,  ///< element 0 of one register: reductions; any register number, EEW = SEW × 2^scale
    whole,    ///< 2^scale registers
  };
  Kind kind = none;
  std::int8_t scale = 0;
};

/// The register groups of the operands, checked once per instruction address and vtype.
struct GroupRule {
  Group vd, vs1, vs2;
  std::uint8_t fields = 1;  ///< number of segment fields: EMUL × fields ≤ 8 registers
};

/// A meaning defined outside the table (in Python): called with the hart and the decoded instruction.
using Meaning = std::function<void(Hart&, const Op&)>;

/// Cost of a user-defined instruction in cycles; missing numbers are those of its unit's class.
struct CustomTiming {
  std::optional<double> per_register;  ///< time in its pipe per register of the group; or
  std::optional<double> whole;         ///< time in its pipe for any group
  std::optional<double> latency;       ///< from a beat's start to the earliest start of a consumer
  std::string unit;                    ///< a unit of `CoreTiming::units`; empty: `InstructionInfo::unit`
  unsigned width = 0;                  ///< the only legal element width in bits; 0: all
};

/// The elementwise functions for which kernels use an instruction, and the element type on which it computes.
struct Replaced {
  std::vector<Function> functions;
  DType element = DType::f32;
};

struct InstructionInfo {
  std::string name;      ///< full mnemonic: "vadd.vv"
  std::string operands;  ///< in assembler syntax: "rd, i12(rs1)"; operands.cpp defines the words
  Encoding encoding;     ///< 16 bits for a compressed instruction
  std::string extension;
  Unit unit = Unit::scalar;
  std::string timing;  ///< timing class of the pipeline model
  std::uint32_t traits = 0;
  GroupRule groups;
  Execute execute = nullptr;  ///< of scalar instructions; vector instructions use `by_width`
  /// Functions of vector instructions for SEW 8, 16, 32, 64; null: reserved.
  std::array<Execute, 4> by_width{};
  std::shared_ptr<const Meaning> meaning;  ///< replaces both in a user-defined instruction
  std::string description;                 ///< one sentence
  std::optional<CustomTiming> custom;      ///< explicit timing, which replaces the class's
  std::optional<Replaced> replaces;        ///< of user-defined instructions only

  bool is(std::uint32_t trait) const { return (traits & trait) != 0; }
};

/// A table under construction; extension, unit and traits apply to all following lines.
class Declarations {
 public:
  std::string extension;
  Unit unit = Unit::scalar;
  std::uint32_t traits = 0;

  /// Declares name, operands, encoding, timing class, function, description; the returned entry takes more fields.
  InstructionInfo& operator()(std::string name, std::string operands, Encoding encoding, std::string timing,
                              Execute execute, std::string description) {
    entries.push_back({std::move(name),
                       std::move(operands),
                       encoding,
                       extension,
                       unit,
                       std::move(timing),
                       traits,
                       {},
                       execute,
                       {},
                       nullptr,
                       std::move(description),
                       {},
                       {}});
    return entries.back();
  }
  std::vector<InstructionInfo> entries;
};

}  // namespace tilesim::isa
