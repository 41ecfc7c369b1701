// Assembles text into machine code.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tilesim/isa/table/instruction_set.hpp"

namespace tilesim::isa {

struct Assembled {
  std::string bytes;
  std::map<std::string, std::uint64_t> labels;
};

/// One instruction or directive a line (or more, between ';'), labels (names, and numbers with 1b and 1f), comments by
/// '#' or "//". Instructions of the set, the pseudo-instructions of the assembly manual and of V, data, floats, text,
/// room and alignment (by instructions that do nothing), .equ and .set; what speaks to a linker alone is read over.
/// `call` and `tail` are one jal, as a linker relaxes them. Throws UserError with line and column, and the nearest
/// mnemonic.
Assembled assemble(const InstructionSet& set, const std::string& text, std::uint64_t address = 0);

/// A pseudo-instruction as instructions with $0, $1… for its operands; empty: it is none with so many operands.
std::vector<std::string> expand_pseudo(std::string_view name, const std::vector<std::string>& operands);
/// The operand counts of a pseudo-instruction as text; empty: unknown name.
std::string pseudo_operands(std::string_view name);

std::vector<std::string_view> pseudo_names();

/// Instructions that put a constant into a register.
std::vector<std::string> load_constant(const std::string& reg, std::int64_t value);

}  // namespace tilesim::isa
