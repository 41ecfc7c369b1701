#include "tilesim/isa/text/expression.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <string_view>

#include "tilesim/base/error.hpp"

namespace tilesim::isa {

void wrong(SourcePosition place, const std::string& what, const std::string& value, const std::string& allowed,
           const std::string& suggestion) {
  throw UserError({what, "line " + std::to_string(place.line) + ", column " + std::to_string(place.column), value,
                   allowed, suggestion});
}

std::string near(const std::string& word, const std::vector<std::string>& names) {
  return word.size() <= 64 ? nearest(word, names) : std::string();
}

std::string trimmed(const std::string& text) {
  const auto blank = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  auto begin = std::find_if_not(text.begin(), text.end(), blank);
  auto end = std::find_if_not(text.rbegin(), std::make_reverse_iterator(begin), blank).base();
  return {begin, end};
}

char escaped(const std::string& text, std::size_t& at) {
  constexpr std::string_view letters = "ntrbf", meant = "\n\t\r\b\f";
  const char c = text[at];
  if (const std::size_t known = letters.find(c); known != std::string_view::npos) return meant[known];
  if (c < '0' || c > '7') return c;
  unsigned value = 0;
  std::size_t end = at;
  for (; end < text.size() && end < at + 3 && text[end] >= '0' && text[end] <= '7'; ++end)
    value = value * 8 + static_cast<unsigned>(text[end] - '0');
  at = end - 1;
  return static_cast<char>(value);
}

std::optional<std::int64_t> number_of(std::string text) {
  if (text.size() == 3 && text.front() == '\'' && text.back() == '\'') return text[1];
  if (text.size() > 3 && text.front() == '\'' && text.back() == '\'' && text[1] == '\\') {
    std::size_t at = 2;
    const char c = escaped(text.substr(0, text.size() - 1), at);
    if (at + 2 == text.size()) return c;
    return {};
  }
  bool negative = false;
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) negative = text[0] == '-', text.erase(0, 1);
  int base = 10;
  if (text.size() > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X'))
    base = 16, text.erase(0, 2);
  else if (text.size() > 2 && text[0] == '0' && (text[1] == 'b' || text[1] == 'B'))
    base = 2, text.erase(0, 2);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return {};
  return static_cast<std::int64_t>(negative ? 0 - value : value);
}

namespace {

constexpr int deepest_nesting = 64;

std::int64_t low12(std::int64_t value) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(value) << 52) >> 52;
}

std::int64_t high20(std::int64_t value) {
  return static_cast<std::int64_t>(
      (static_cast<std::uint64_t>(value) - static_cast<std::uint64_t>(low12(value))) >> 12 & 0xFFFFF);
}

class Expression {
 public:
  Expression(const Labels& labels, const std::string& text, const Where& where)
      : labels_(labels), text_(text), where_(where) {}

  Quantity whole() {
    const Quantity found = sum(0);
    if (!end()) bad();
    return found;
  }

 private:
  [[noreturn]] void bad() const { wrong(where_.place, "this is neither a number nor a label", text_); }
  bool end() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
    return at_ == text_.size();
  }
  bool take(std::string_view what) {
    if (end() || std::string_view(text_).substr(at_, what.size()) != what) return false;
    at_ += what.size();
    return true;
  }
  /// Consumes one of the operators; 0: none is next. "<" and ">" stand for "<<" and ">>".
  char one_of(std::string_view operators) {
    if (end() || operators.find(text_[at_]) == std::string_view::npos) return 0;
    const char c = text_[at_];
    return take(c == '<' ? "<<" : c == '>' ? ">>" : std::string_view(&c, 1)) ? c : '\0';
  }
  void numbers(const Quantity& a, const Quantity& b) const {
    if (a.labels != 0 || b.labels != 0)
      wrong(where_.place, "labels can only be added and subtracted", text_, "numbers beside other operators");
  }

  Quantity sum(int depth) {
    Quantity a = bits(depth);
    while (const char sign = one_of("+-")) {
      const Quantity b = bits(depth);
      const auto x = static_cast<std::uint64_t>(a.value), y = static_cast<std::uint64_t>(b.value);
      a = {static_cast<std::int64_t>(sign == '+' ? x + y : x - y),
           sign == '+' ? a.labels + b.labels : a.labels - b.labels};
    }
    return a;
  }
  Quantity bits(int depth) {
    Quantity a = product(depth);
    while (const char sign = one_of("&|^")) {
      const Quantity b = product(depth);
      numbers(a, b);
      a.value = sign == '&' ? a.value & b.value : sign == '|' ? a.value | b.value : a.value ^ b.value;
    }
    return a;
  }
  Quantity product(int depth) {
    Quantity a = single(depth);
    while (const char sign = one_of("*/%<>")) {
      const Quantity b = single(depth);
      numbers(a, b);
      a.value = combined(sign, a.value, b.value);
    }
    return a;
  }
  std::int64_t combined(char sign, std::int64_t a, std::int64_t b) const {
    const auto x = static_cast<std::uint64_t>(a), y = static_cast<std::uint64_t>(b);
    if (sign == '*') return static_cast<std::int64_t>(x * y);
    if (sign == '<' || sign == '>') {
      if (y > 63) wrong(where_.place, "numbers can be shifted by 0 to 63 bits", text_);
      return static_cast<std::int64_t>(sign == '<' ? x << y : x >> y);
    }
    if (b == 0) wrong(where_.place, "this divides by zero", text_);
    if (b == -1) return sign == '/' ? static_cast<std::int64_t>(0 - x) : 0;
    return sign == '/' ? a / b : a % b;
  }
  Quantity single(int depth) {
    if (depth > deepest_nesting) wrong(where_.place, "parentheses are nested too deeply", text_.substr(0, 40), "64");
    if (take("(")) return closed(depth);
    if (const char sign = one_of("-~+")) {
      const Quantity a = single(depth + 1);
      if (sign == '+') return a;
      numbers(a, a);
      return {static_cast<std::int64_t>(sign == '-' ? 0 - static_cast<std::uint64_t>(a.value)
                                                    : ~static_cast<std::uint64_t>(a.value)),
              0};
    }
    if (take("%")) return part(depth);
    return named();
  }
  Quantity closed(int depth) {
    const Quantity a = sum(depth + 1);
    if (!take(")")) bad();
    return a;
  }
  Quantity part(int depth) {
    for (const std::string_view name : {"hi", "lo", "pcrel_hi", "pcrel_lo"}) {
      const std::size_t before = at_;
      if (!take(name) || !take("(")) {
        at_ = before;
        continue;
      }
      const std::size_t first = at_;
      const std::int64_t value = closed(depth).value;
      if (name == "hi") return {high20(value), 0};
      if (name == "lo") return {low12(value), 0};
      if (name == "pcrel_hi") return {high20(value - static_cast<std::int64_t>(where_.address)), 0};
      return {low12(distance(static_cast<std::uint64_t>(value), text_.substr(first, at_ - first - 1))), 0};
    }
    wrong(where_.place, "unknown part of an address", text_, "%hi, %lo, %pcrel_hi, %pcrel_lo");
  }
  /// Distance of the address in the %pcrel_hi at `address`.
  std::int64_t distance(std::uint64_t address, const std::string& label) const {
    const auto high = labels_.highs.find(address);
    if (high == labels_.highs.end())
      wrong(where_.place, "no instruction with %pcrel_hi at this label", label,
            "the label of the auipc that has the high part");
    const auto& [text, order, place] = high->second;
    if (text.find("%pcrel_lo") != std::string::npos) wrong(place, "a high part of a low part", text);
    return quantity(labels_, text, {place, address, order}).value - static_cast<std::int64_t>(address);
  }
  Quantity named() {
    if (end()) bad();
    std::size_t stop = at_;
    if (text_[at_] == '\'') {
      stop = text_.find('\'', at_ + (at_ + 1 < text_.size() && text_[at_ + 1] == '\\' ? 3 : 2));
      stop = stop == std::string::npos ? text_.size() : stop + 1;
    }
    while (stop < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[stop])) != 0 || text_[stop] == '.' ||
                                   text_[stop] == '_' || text_[stop] == '$'))
      ++stop;
    const std::string word = text_.substr(at_, stop - at_);
    at_ = stop;
    if (word.empty()) bad();
    if (const auto number = number_of(word)) return {*number, 0};
    if (word == ".") return {static_cast<std::int64_t>(where_.address), 1};
    if (std::isdigit(static_cast<unsigned char>(word[0])) != 0) return local(word);
    if (const auto known = labels_.constants.find(word); known != labels_.constants.end()) return known->second;
    if (const auto known = labels_.names.find(word); known != labels_.names.end())
      return {static_cast<std::int64_t>(known->second), 1};
    std::vector<std::string> names;
    for (const auto& [name, where] : labels_.names) names.push_back(name);
    for (const auto& [name, value] : labels_.constants) names.push_back(name);
    wrong(where_.place, "this is neither a number nor a label", word == text_ ? text_ : word + " in " + text_, {},
          near(word, names));
  }
  Quantity local(const std::string& word) const {
    const std::string number = word.substr(0, word.size() - 1);
    const auto digits = [](const std::string& text, std::string_view allowed) {
      return !text.empty() && text.find_first_not_of(allowed) == std::string::npos;
    };
    constexpr std::string_view decimal = "0123456789", hexadecimal = "0123456789abcdefABCDEF";
    const bool hex = word.size() > 2 && (word[1] == 'x' || word[1] == 'X');
    if (digits(word, decimal) || (hex && digits(word.substr(2), hexadecimal)))
      wrong(where_.place, "this number has more than 64 bits", word);
    if (!digits(number, decimal) || (word.back() != 'b' && word.back() != 'f'))
      wrong(where_.place, "this is neither a number nor a label", word);
    static const std::vector<Labels::Local> none;
    const auto known = labels_.locals.find(number);
    const std::vector<Labels::Local>& all = known == labels_.locals.end() ? none : known->second;
    const auto next = std::upper_bound(all.begin(), all.end(), where_.order,
                                       [](std::size_t order, const Labels::Local& l) { return order < l.order; });
    if (word.back() == 'f' ? next == all.end() : next == all.begin())
      wrong(where_.place, std::string("no label '") + number + ":' stands " + (word.back() == 'f' ? "below" : "above"),
            word);
    return {static_cast<std::int64_t>((word.back() == 'f' ? *next : *(next - 1)).address), 1};
  }

  const Labels& labels_;
  const std::string& text_;
  const Where& where_;
  std::size_t at_ = 0;
};

}  // namespace

Quantity quantity(const Labels& labels, const std::string& text, const Where& where) {
  return Expression(labels, text, where).whole();
}

std::int64_t expression(const Labels& labels, const std::string& text, const Where& where, bool relative) {
  const Quantity found = quantity(labels, text, where);
  if (found.labels != 0 && found.labels != 1)
    wrong(where.place, "this is neither a number nor an address", text, "one label more than are subtracted");
  const std::uint64_t from = relative && found.labels == 1 ? where.address : 0;
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(found.value) - from);
}

std::int64_t constant(const Labels& labels, const std::string& text, const Where& where) {
  const Quantity found = quantity(labels, text, where);
  if (found.labels != 0) wrong(where.place, "a number is expected here, not an address", text, "la takes addresses");
  return found.value;
}

}  // namespace tilesim::isa
