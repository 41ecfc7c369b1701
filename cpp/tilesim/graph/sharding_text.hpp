// Parser for the texts of meshes and shardings.
#pragma once

#include <cctype>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tilesim/base/error.hpp"

namespace tilesim {

class ShardingText {
 public:
  ShardingText(std::string_view text, const char* what) : text_(text), what_(what) {}

  /// Skips blanks, then consumes `word` if it comes next; returns whether it did.
  bool take(std::string_view word) {
    blanks();
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  bool sees(std::string_view word) {
    blanks();
    return text_.substr(at_, word.size()) == word;
  }
  void expect(std::string_view word) {
    if (!take(word)) fail("'" + std::string(word) + "'");
  }
  std::int64_t integer() {
    blanks();
    std::int64_t value = 0;
    const std::size_t start = at_;
    for (; at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0; ++at_) {
      value = value * 10 + (text_[at_] - '0');
      if (value > std::int64_t{1} << 40) fail("a smaller number");
    }
    if (at_ == start) fail("a number");
    return value;
  }
  /// Reads comma-separated integers, and `end` after them.
  std::vector<std::int64_t> integers(std::string_view end) {
    std::vector<std::int64_t> found;
    if (take(end)) return found;
    do found.push_back(integer());
    while (take(","));
    expect(end);
    return found;
  }
  /// Reads a quoted name, or a word of letters, digits, '_', '-' and '.'.
  std::string name() {
    blanks();
    const bool quoted = take("\"");
    const std::size_t start = at_;
    while (at_ < text_.size() && (quoted ? text_[at_] != '"' : in_word(text_[at_]))) ++at_;
    const std::string found(text_.substr(start, at_ - start));
    if (found.empty()) fail("a name");
    if (quoted) expect("\"");
    return found;
  }
  void end() {
    blanks();
    if (at_ != text_.size()) fail("the end of the text");
  }
  [[noreturn]] void fail(const std::string& allowed) const {
    throw UserError({std::string("This text is not ") + what_ + ".",
                     "character " + std::to_string(at_ + 1),
                     std::string(text_.substr(0, 200)),
                     allowed,
                     {}});
  }

 private:
  static bool in_word(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.';
  }
  void blanks() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }

  std::string_view text_;
  const char* what_;
  std::size_t at_ = 0;
};

}  // namespace tilesim
