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

/// The pipe that an instruction takes.
enum class Unit : std::uint8_t { scalar, load, store, arithmetic, special, cross_lane, matrix, control };
const char* unit_name(Unit unit);

/// What an instruction is beside its meaning.
enum Trait : std::uint32_t {
  ends_block = 1 << 0,  ///< what follows it in memory is not certain to follow it in time
  is_branch = 1 << 1,   ///< conditional
  is_jump = 1 << 2,
  is_load = 1 << 3,
  is_store = 1 << 4,
  is_vector = 1 << 5,
  sets_flags = 1 << 6,      ///< fflags
  reads_rounding = 1 << 7,  ///< frm, unless its rm field says otherwise
  sets_vxsat = 1 << 8,
  reads_vxrm = 1 << 9,
  reads_vd = 1 << 10,  ///< the old vd is an operand, beside undisturbed elements: vmacc
  sets_vl = 1 << 11,
  any_vstart = 1 << 12,     ///< goes on at vstart: loads and stores; others trap unless it is 0
  ignores_vtype = 1 << 13,  ///< whole registers: no vtype is asked for
  overlap_never = 1 << 14,  ///< vd overlaps no source at all: vrgather, vslideup, viota, vcompress
  is_compressed = 1 << 15,
  never_masked = 1 << 17,        ///< the bit of `vm` means something else: VCIX
  scalar_destination = 1 << 16,  ///< element 0 of vd alone: reductions, vmv.s.x
};

/// How a vector operand takes registers.
struct Group {
  enum Kind : std::uint8_t {
    none,
    group,    ///< EEW = SEW × 2^scale, EMUL = LMUL × 2^scale
    fixed,    ///< EEW = 2^scale bits, EMUL = EEW / SEW × LMUL: loads, stores, indices
    mask,     ///< one register of bits
    element,  ///< one register of which element 0 is meant: reductions; any number, EEW = SEW × 2^scale
    whole,    ///< 2^scale registers
  };
  Kind kind = none;
  std::int8_t scale = 0;
};

/// The register-group rule: of each operand, checked once for each place in the program and vtype.
struct GroupRule {
  Group vd, vs1, vs2;
  std::uint8_t fields = 1;  ///< of segments: EMUL × fields ≤ 8 registers
};

/// A meaning from outside the table (Python): called with the hart and the decoded instruction.
using Meaning = std::function<void(Hart&, const Op&)>;

/// What an instruction of the user's costs, in cycles; what is not stated is as its unit's class on the core.
struct CustomTiming {
  std::optional<double> per_register;  ///< it holds its pipe so long for each register of the group; or
  std::optional<double> whole;         ///< so long, whatever the group
  std::optional<double> latency;       ///< from a beat's start until a consumer may start on its result
  std::string unit;    ///< a unit of the core's own (`CoreTiming::units`); empty: `InstructionInfo::unit`
  unsigned width = 0;  ///< bits of an element, where only that is legal
};

/// The elementwise functions that kernels take an instruction for, and the elements on which it computes them.
struct Replaced {
  std::vector<Function> functions;
  DType element = DType::f32;
};

struct InstructionInfo {
  std::string name;      ///< mnemonic, whole: "vadd.vv"
  std::string operands;  ///< as the assembler reads them: "rd, i12(rs1)"; the words are those of operands.cpp
  Encoding encoding;     ///< 16 bits where compressed
  std::string extension;
  Unit unit = Unit::scalar;
  std::string timing;  ///< class of the pipeline model
  std::uint32_t traits = 0;
  GroupRule groups;
  Execute execute = nullptr;  ///< scalar instructions; the vector ones' is `by_width`
  /// Vector instructions by SEW (8, 16, 32, 64); null: reserved.
  std::array<Execute, 4> by_width{};
  std::shared_ptr<const Meaning> meaning;  ///< instead of both: an instruction of the user's
  std::string description;                 ///< one sentence
  std::optional<CustomTiming> custom;      ///< timing by numbers instead of by class
  std::optional<Replaced> replaces;        ///< of the user's alone

  bool is(std::uint32_t trait) const { return (traits & trait) != 0; }
};

/// A table under construction: the extension, unit and traits that follow lines share stand once.
class Declarations {
 public:
  std::string extension;
  Unit unit = Unit::scalar;
  std::uint32_t traits = 0;

  /// One line: name, operands, encoding, timing class, meaning, description; more by the returned entry.
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
