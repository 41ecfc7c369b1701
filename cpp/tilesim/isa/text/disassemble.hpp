// Disassembles instructions into text that the assembler accepts.
#pragma once

#include <cstdint>
#include <string>

#include "tilesim/isa/table/instruction_set.hpp"

namespace tilesim::isa {

/// The text of `instruction_text`; where the assembler rejects its registers, as ".word 0x..." with that text and why
/// in a comment.
std::string disassemble(const InstructionSet& set, std::uint32_t bits, std::uint64_t address = 0);

/// "addi a0, a1, -3"; offsets of branches relative to the instruction; ".word 0x..." (or .half) where it is none.
std::string instruction_text(const InstructionSet& set, std::uint32_t bits);

/// "e32, m1, ta, ma", or a number where vtype is reserved.
std::string vtype_text(std::uint64_t value);

const char* rounding_name(unsigned mode);  ///< "rne"... "dyn"; null: reserved

}  // namespace tilesim::isa
