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

/// By the declaration alone (`GroupRule`, traits): whole groups that do not start at a multiple of their size, a wider
/// destination or one that overlaps no source in a source's place, a masked one in that of its mask. None: it may run
/// at some vtype, or traps by rules that assemblers leave to the hart (narrower sources of extensions, indices of
/// segments, a mask that is read as elements too).
std::optional<ReservedRegister> reserved_register(const InstructionSet& set, const InstructionInfo& info,
                                                  std::uint32_t bits);

}  // namespace tilesim::isa
