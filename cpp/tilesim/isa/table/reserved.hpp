// Registers that a vector instruction must not use under any vtype. Assemblers reject them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tilesim/isa/table/instruction_set.hpp"

namespace tilesim::isa {

struct ReservedRegister {
  const OperandWord* operand = nullptr;
  const char* what = "";
  std::string allowed;
};

/// A register that is illegal for every vtype, by the declaration only (`GroupRule`, traits): a whole group not aligned
/// to its size, a wider destination over a source, a destination that must not overlap a source, or a masked
/// destination over its mask. Empty: it is legal for some vtype, or traps by rules that assemblers leave to the hart
/// (narrower sources of extensions, indices of segments, a mask that is also read as elements).
std::optional<ReservedRegister> reserved_register(const InstructionSet& set, const InstructionInfo& info,
                                                  std::uint32_t bits);

}  // namespace tilesim::isa
