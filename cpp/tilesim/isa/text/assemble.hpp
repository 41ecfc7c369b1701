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

/// One instruction or directive per line (or more, separated by ';'), labels (names, and numbers with 1b and 1f),
/// comments after '#' or "//". Accepts instructions of the set, pseudo-instructions of the assembly manual and of V,
/// data, floats, text, space, alignment (by nops), .equ and .set; ignores directives for linkers. `call` and `tail` are
/// one jal, as after linker relaxation. Throws UserError with line and column, and the nearest mnemonic.
Assembled assemble(const InstructionSet& set, const std::string& text, std::uint64_t address = 0);

/// A pseudo-instruction's instructions, with $0, $1… for operands; empty: unknown name or number of operands.
std::vector<std::string> expand_pseudo(std::string_view name, const std::vector<std::string>& operands);
/// The operand counts of a pseudo-instruction as text; empty: unknown name.
std::string pseudo_operands(std::string_view name);

std::vector<std::string_view> pseudo_names();

/// Instructions that load a constant into a register.
std::vector<std::string> load_constant(const std::string& reg, std::int64_t value);

}  // namespace tilesim::isa
