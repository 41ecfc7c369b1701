// Numbers, labels and expressions in assembly text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tilesim::isa {

/// Position in the text, for messages.
struct SourcePosition { std::size_t line = 1, column = 1; };

/// Position of an expression in text and code.
struct Where {
  SourcePosition place;
  std::uint64_t address = 0;
  std::size_t order = 0;  ///< index of its statement
};

/// A value with a count of labels: 1: the value moves with the code; 0: a constant.
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
  std::map<std::string, Quantity> constants;         ///< defined by .equ and .set
  std::map<std::string, std::vector<Local>> locals;  ///< "1:": index of the next statement, address
  std::map<std::uint64_t, High> highs;               ///< expressions in %pcrel_hi(), by the address of the instruction
};

[[noreturn]] void wrong(SourcePosition place, const std::string& what, const std::string& value,
                        const std::string& allowed = {}, const std::string& suggestion = {});

/// The nearest name; empty for a word too long to be a misspelling.
std::string near(const std::string& word, const std::vector<std::string>& names);

std::string trimmed(const std::string& text);

/// An integer in C syntax, or a character in quotes; empty for any other text.
std::optional<std::int64_t> number_of(std::string text);

/// The character of an escape sequence after the backslash at text[at]; advances `at` to its last character.
char escaped(const std::string& text, std::size_t& at);

/// Numbers, labels (also "1b" and "1f"), `.`, parentheses, the operators of GNU as: unary - ~; * / % << >>; & | ^; + -.
/// %hi, %lo, %pcrel_hi and %pcrel_lo as in the psABI: %pcrel_lo takes the label of the instruction with the %pcrel_hi.
/// Throws UserError with the place.
Quantity quantity(const Labels& labels, const std::string& text, const Where& where);

/// The value of an expression; with `relative`, a label gives its distance from the statement.
std::int64_t expression(const Labels& labels, const std::string& text, const Where& where, bool relative);

/// The value of an expression without labels.
std::int64_t constant(const Labels& labels, const std::string& text, const Where& where);

}  // namespace tilesim::isa
