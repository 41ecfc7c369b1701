// Disassembles instructions into text that the assembler accepts.
#pragma once

#include <cstdint>
#include <string>

#include "tilesim/isa/table/instruction_set.hpp"

namespace tilesim::isa {

/// `instruction_text`; for registers that the assembler rejects, ".word 0x..." with the text and the reason in a
/// comment.
std::string disassemble(const InstructionSet& set, std::uint32_t bits, std::uint64_t address = 0);

/// "addi a0, a1, -3"; branch offsets are relative to the instruction; ".word 0x..." (or .half) for other bits.
std::string instruction_text(const InstructionSet& set, std::uint32_t bits);

/// "e32, m1, ta, ma", or a number if vtype is reserved.
std::string vtype_text(std::uint64_t value);

const char* rounding_name(unsigned mode);  ///< "rne"... "dyn"; null: reserved

}  // namespace tilesim::isa
