// Numbers, labels and expressions in a line of assembly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tilesim::isa {

/// Position of a piece of text, for messages.
struct SourcePosition { std::size_t line = 1, column = 1; };

/// Place of an expression in the code.
struct Where {
  SourcePosition place;
  std::uint64_t address = 0;
  std::size_t order = 0;  ///< index of its statement
};

/// A value with a number of labels: with 1 it moves with the code, with 0 it is a constant.
struct Quantity {
  std::int64_t value = 0;
  int labels = 0;
};

/// Names defined by a text.
struct Labels {
  struct Local {
    std::size_t order;
    std::uint64_t address;
  };
  struct High {
    std::string text;
    std::size_t order;
    SourcePosition place;
  };
  std::map<std::string, std::uint64_t> names;
  std::map<std::string, Quantity> constants;         ///< of .equ and .set
  std::map<std::string, std::vector<Local>> locals;  ///< "1:": order of the statement that follows, address
  std::map<std::uint64_t, High> highs;               ///< expressions in %pcrel_hi(), by address of their instruction
};

[[noreturn]] void wrong(SourcePosition place, const std::string& what, const std::string& value,
                        const std::string& allowed = {}, const std::string& suggestion = {});

/// The nearest of the names; empty for a word too long to be a misspelling.
std::string near(const std::string& word, const std::vector<std::string>& names);

std::string trimmed(const std::string& text);

/// An integer in C syntax, or a character in quotes; empty for other text.
std::optional<std::int64_t> number_of(std::string text);

/// The character behind a backslash at text[at], which is moved to its last.
char escaped(const std::string& text, std::size_t& at);

/// Numbers, labels ("1b" and "1f" too), `.`, parentheses, the operators of GNU as: - ~ before; * / % << >>; & | ^;
/// + -. %hi, %lo, %pcrel_hi and %pcrel_lo as psABI has them: %pcrel_lo takes the label of the instruction with the
/// %pcrel_hi. Throws UserError with the place.
Quantity quantity(const Labels& labels, const std::string& text, const Where& where);

/// The value; with `relative`, a label's distance from the statement.
std::int64_t expression(const Labels& labels, const std::string& text, const Where& where, bool relative);

/// A value without labels.
std::int64_t constant(const Labels& labels, const std::string& text, const Where& where);

}  // namespace tilesim::isa
