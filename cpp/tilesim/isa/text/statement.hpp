// Parses a line of assembly, and encodes its operands as fields.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tilesim/isa/table/instruction_set.hpp"
#include "tilesim/isa/text/expression.hpp"

namespace tilesim::isa {

struct Statement {
  SourcePosition place;
  std::string name;
  std::vector<std::string> operands;
  std::vector<SourcePosition> places;  ///< positions of the operands
  std::uint64_t address = 0;
  std::size_t order = 0;  ///< index among the statements; statements expanded from one share the index of the first

  Where where(std::size_t operand) const { return {places[operand], address, order}; }
};

/// Encodes a statement as instruction `info`. Throws UserError with the place.
std::uint32_t encode(const InstructionSet& set, const InstructionInfo& info, const Statement& statement,
                     const Labels& labels);

}  // namespace tilesim::isa
