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
  std::vector<SourcePosition> places;  ///< of the operands
  std::uint64_t address = 0;
  std::size_t order = 0;  ///< among the statements; that of the first, of those that one of the text was made into

  Where where(std::size_t operand) const { return {places[operand], address, order}; }
};

/// The bits of a statement that `info` describes. Throws UserError with the place.
std::uint32_t encode(const InstructionSet& set, const InstructionInfo& info, const Statement& statement,
                     const Labels& labels);

}  // namespace tilesim::isa
