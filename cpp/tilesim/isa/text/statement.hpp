// A line of assembly in parts, and its operands as fields.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tilesim/isa/table/instruction_set.hpp"

namespace tilesim::isa {

/// Where a piece of text stands, for messages.
struct Place { std::size_t line = 1, column = 1; };

struct Statement {
  Place place;
  std::string name;
  std::vector<std::string> operands;
  std::vector<Place> places;  ///< of the operands
  std::uint64_t address = 0;
};

using Labels = std::map<std::string, std::uint64_t>;

[[noreturn]] void wrong(Place place, const std::string& what, const std::string& value, const std::string& allowed = {},
                        const std::string& suggestion = {});

/// The nearest of the names; nothing for a word so long that it is none of them misspelt.
std::string near(const std::string& word, const std::vector<std::string>& names);

std::string trimmed(const std::string& text);

/// A whole number as C writes it; none for anything else.
std::optional<std::int64_t> number_of(std::string text);

/// A number, a label, `.`, one of them plus or minus a number, or %pcrel_hi(label), %pcrel_lo(label); a label's
/// distance from `address` if `relative`.
std::int64_t expression(const Labels& labels, const std::string& text, Place place, std::uint64_t address,
                        bool relative);

/// The bits of a statement that `info` describes. Throws UserError with the place.
std::uint32_t encode(const InstructionSet& set, const InstructionInfo& info, const Statement& statement,
                     const Labels& labels);

}  // namespace tilesim::isa
