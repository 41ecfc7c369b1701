// Parses timing values: "nCWL + nBL + nWTRS", "14 ns", "max(4, 5 ns)".
#include <algorithm>
#include <cctype>
#include <cmath>

#include "tilesim/engine/dram/part.hpp"

namespace tilesim::engine::dram {

namespace {

class TimingParser {
 public:
  TimingParser(const Json& json, const std::map<std::string, std::int64_t>& names, std::int64_t clock_ps)
      : json_(json), text_(json.as_string()), names_(names), clock_ps_(clock_ps) {}

  std::int64_t read() {
    const std::int64_t value = sum();
    skip();
    if (at_ != text_.size()) fail("unexpected text");
    return value;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    const std::string shown = text_.size() > longest_shown ? text_.substr(0, longest_shown) + "..." : text_;
    json_.fail(what + " in the timing '" + shown + "' at character " + std::to_string(at_ + 1),
               "whole numbers, timing names, 'ns', + - *, max(a, b)");
  }
  void skip() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::int64_t sum() {
    if (++depth_ > deepest) fail("too many parentheses");
    std::int64_t value = product();
    for (;;) {
      if (take('+')) {
        value = bounded(value + product());
      } else if (take('-')) {
        value = bounded(value - product());
      } else {
        --depth_;
        return value;
      }
    }
  }
  std::int64_t product() {
    std::int64_t value = bounded(factor());
    while (take('*')) value = bounded(value * bounded(factor()));
    return value;
  }
  /// Returns the value; throws if it is so large that a sum or product of two values could overflow.
  std::int64_t bounded(std::int64_t value) const {
    if (std::abs(value) > limit) fail("a number is too large");
    return value;
  }
  std::int64_t factor() {
    skip();
    if (take('(')) {
      const std::int64_t value = sum();
      if (!take(')')) fail("')' is missing");
      return value;
    }
    if (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0) return number();
    return word();
  }
  std::string letters() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '_'))
      ++at_;
    return text_.substr(begin, at_ - begin);
  }
  std::int64_t number() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && (std::isdigit(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '.'))
      ++at_;
    const std::string digits = text_.substr(begin, at_ - begin);
    if (digits.size() > 12) fail("a number is too large");
    if (std::count(digits.begin(), digits.end(), '.') > 1) fail("a number has too many points");
    skip();
    const std::size_t before = at_;
    if (letters() == "ns") {
      // Rounds up, except that a ten-thousandth of a tick is permitted for rounding in the decimal text.
      const double ticks = std::stod(digits) * 1000.0 / static_cast<double>(clock_ps_);
      return static_cast<std::int64_t>(std::ceil(ticks - 1e-4));
    }
    at_ = before;
    if (digits.find('.') != std::string::npos) fail("a fraction needs the unit ns");
    return std::stoll(digits);
  }
  std::int64_t word() {
    const std::string found = letters();
    if (found.empty()) fail("a value is missing");
    if (found == "max") {
      if (!take('(')) fail("'(' is missing");
      std::int64_t value = sum();
      while (take(',')) value = std::max(value, sum());
      if (!take(')')) fail("')' is missing");
      return value;
    }
    const auto entry = names_.find(found);
    if (entry != names_.end()) return entry->second;
    std::vector<std::string> known;
    for (const auto& [key, value] : names_) known.push_back(key);
    throw UserError({"unknown timing", json_.place(), "'" + found + "'", join(known), nearest(found, known)});
  }

  static constexpr std::int64_t limit = 1 << 30;
  static constexpr int deepest = 200;
  static constexpr std::size_t longest_shown = 100;
  const Json& json_;
  const std::string& text_;
  const std::map<std::string, std::int64_t>& names_;
  std::int64_t clock_ps_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::int64_t evaluate_timing(const Json& value, const std::map<std::string, std::int64_t>& names,
                             std::int64_t clock_ps) {
  constexpr std::int64_t longest = 1 << 26;
  const std::int64_t ticks = value.is_string() ? TimingParser(value, names, clock_ps).read() : value.as_int();
  if (ticks < 0 || ticks > longest) {
    const std::string text = value.is_string() ? "'" + value.as_string() + "' = " : "";
    throw UserError({"a time is out of range",
                     value.place(),
                     text + std::to_string(ticks) + " ticks",
                     "0 to " + std::to_string(longest),
                     {}});
  }
  return ticks;
}

}  // namespace tilesim::engine::dram
