// Text form of expressions: printing and parsing.
#include <cctype>
#include <limits>

#include "tilesim/base/error.hpp"
#include "tilesim/base/expr/expr.hpp"

namespace tilesim {

namespace {

using K = Expr::Kind;

/// Recursive-descent parser for the grammar in expr.hpp.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Expr parse() {
    Expr result = disjunction();
    skip();
    if (position_ != text_.size()) fail("unexpected text");
    return result;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw UserError({what + " at column " + std::to_string(position_ + 1) + " of an expression",
                     {},
                     "'" + std::string(text_) + "'",
                     {},
                     {}});
  }

  void skip() {
    while (position_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[position_]))) ++position_;
  }

  bool accept(std::string_view token) {
    skip();
    if (text_.substr(position_, token.size()) != token) return false;
    const bool word = std::isalpha(static_cast<unsigned char>(token[0]));
    const std::size_t end = position_ + token.size();
    if (word && end < text_.size() && is_name(text_[end])) return false;
    position_ = end;
    return true;
  }

  void expect(std::string_view token) {
    if (!accept(token)) fail("expected '" + std::string(token) + "'");
  }

  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  static bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; }

  Expr disjunction() {
    Expr left = conjunction();
    while (accept("or")) left = logical_or(left, conjunction());
    return left;
  }

  Expr conjunction() {
    Expr left = negation();
    while (accept("and")) left = logical_and(left, negation());
    return left;
  }

  Expr negation() {
    const Nesting level(*this);
    return accept("not") ? logical_not(negation()) : comparison();
  }

  Expr comparison() {
    Expr left = sum();
    if (accept("==")) return equal(left, sum());
    if (accept("!=")) return logical_not(equal(left, sum()));
    if (accept("<=")) return less_equal(left, sum());
    if (accept(">=")) return less_equal(sum(), left);
    if (accept("<")) return less(left, sum());
    if (accept(">")) return less(sum(), left);
    return left;
  }

  Expr sum() {
    Expr left = product();
    while (true) {
      if (accept("+"))
        left = left + product();
      else if (accept("-"))
        left = left - product();
      else
        return left;
    }
  }

  Expr product() {
    Expr left = unary();
    while (true) {
      if (accept("//"))
        left = floor_div(left, constant());
      else if (accept("*"))
        left = left * unary();
      else if (accept("%"))
        left = modulo(left, constant());
      else
        return left;
    }
  }

  std::int64_t constant() {
    const Expr value = unary();
    if (!value.is_constant()) fail("expected a constant");
    return value.value();
  }

  Expr unary() {
    const Nesting level(*this);
    if (!accept("-")) return primary();
    skip();
    const bool digits = position_ < text_.size() && is_digit(text_[position_]);
    return digits ? number(-1) : Expr(0) - unary();
  }

  std::vector<Expr> arguments() {
    std::vector<Expr> list{disjunction()};
    while (accept(",")) list.push_back(disjunction());
    expect(")");
    return list;
  }

  Expr primary() {
    if (accept("(")) {
      Expr inside = disjunction();
      expect(")");
      return inside;
    }
    if (position_ >= text_.size()) fail("expected a value");
    if (is_digit(text_[position_])) return number();
    if (!std::isalpha(static_cast<unsigned char>(text_[position_])) && text_[position_] != '_')
      fail("unexpected character");
    const std::size_t begin = position_;
    while (position_ < text_.size() && is_name(text_[position_])) ++position_;
    const std::string name(text_.substr(begin, position_ - begin));
    return accept("(") ? function(name) : Expr::symbol(name);
  }

  /// Parses digits with their sign, because the lowest integer has no positive counterpart.
  Expr number(std::int64_t sign = 1) {
    std::int64_t value = 0;
    for (; position_ < text_.size() && is_digit(text_[position_]); ++position_)
      if (__builtin_mul_overflow(value, std::int64_t{10}, &value) ||
          __builtin_add_overflow(value, sign * (text_[position_] - '0'), &value))
        fail("a number beyond 64 bits");
    if (position_ < text_.size() && is_name(text_[position_])) fail("unexpected character after a number");
    return value;
  }

  Expr function(const std::string& name) {
    if (name == "read") {
      skip();
      const std::size_t begin = position_;
      while (position_ < text_.size() && is_name(text_[position_])) ++position_;
      std::string tensor(text_.substr(begin, position_ - begin));
      if (tensor.empty()) fail("read needs a tensor's name");
      if (accept(")")) return Expr::read(std::move(tensor), {});
      expect(",");
      return Expr::read(std::move(tensor), arguments());
    }
    const std::vector<Expr> list = arguments();
    if (name == "min" || name == "max") {
      Expr result = list[0];
      for (std::size_t i = 1; i < list.size(); ++i)
        result = name == "min" ? min(result, list[i]) : max(result, list[i]);
      return result;
    }
    if (name == "ceildiv") {
      if (list.size() != 2 || !list[1].is_constant()) fail("ceildiv takes an expression and a constant");
      return ceil_div(list[0], list[1].value());
    }
    fail("unknown function '" + name + "' (allowed: min, max, ceildiv, read)");
  }

  /// Rejects text whose nesting would overflow the parser's stack.
  class Nesting {
   public:
    explicit Nesting(Parser& parser) : depth_(parser.depth_) {
      if (++depth_ > depth_limit) parser.fail("nested too deeply");
    }
    ~Nesting() { --depth_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

   private:
    int& depth_;
  };
  static constexpr int depth_limit = 400;  // two levels per parenthesis

  std::string_view text_;
  std::size_t position_ = 0;
  int depth_ = 0;
};

}  // namespace

namespace {

/// Appends the text form. Sums, products and divisions inside others get parentheses.
class Printer {
 public:
  std::string take() { return std::move(out_); }

  void print(const Expr& e) {
    const std::vector<Expr>& a = e.arguments();
    switch (e.kind()) {
      case K::constant:
        out_ += std::to_string(e.value());
        return;
      case K::symbol:
        out_ += e.name();
        return;
      case K::add:
        return sum(a);
      case K::multiply:
        return product(e);
      case K::floor_div:
        return division(e, " // ");
      case K::modulo:
        return division(e, " % ");
      case K::min:
        return call("min(", a);
      case K::max:
        return call("max(", a);
      case K::equal:
        return infix(a, " == ");
      case K::less:
        return infix(a, " < ");
      case K::less_equal:
        return infix(a, " <= ");
      case K::logical_and:
        return infix(a, " and ");
      case K::logical_or:
        return infix(a, " or ");
      case K::logical_not:
        return negation(a[0]);
      case K::read:
        return call("read(" + e.name() + (a.empty() ? "" : ", "), a);
    }
  }

 private:
  void wrapped(const Expr& e) {
    const bool bare = e.kind() == K::add || e.kind() == K::multiply || e.kind() == K::floor_div ||
                      e.kind() == K::modulo || (e.is_constant() && e.value() < 0);
    if (bare) out_ += '(';
    print(e);
    if (bare) out_ += ')';
  }

  void sum(const std::vector<Expr>& parts) {
    print(parts[0]);
    for (std::size_t i = 1; i < parts.size(); ++i) {
      const bool scaled = parts[i].kind() == K::multiply;
      const std::int64_t sign = scaled ? parts[i].operand() : parts[i].is_constant() ? parts[i].value() : 1;
      // The lowest integer has no positive counterpart to subtract.
      const bool negative = sign < 0 && sign != std::numeric_limits<std::int64_t>::min();
      out_ += negative ? " - " : " + ";
      if (negative)
        scaled ? product(parts[i], -1) : print(Expr(-sign));
      else
        print(parts[i]);
    }
  }

  void product(const Expr& e, std::int64_t sign = 1) {
    out_ += std::to_string(sign * e.operand());
    out_ += '*';
    wrapped(e.arguments()[0]);
  }

  void division(const Expr& e, const char* symbol) {
    wrapped(e.arguments()[0]);
    out_ += symbol;
    out_ += std::to_string(e.operand());
  }

  void infix(const std::vector<Expr>& a, const char* symbol) {
    out_ += '(';
    print(a[0]);
    out_ += symbol;
    print(a[1]);
    out_ += ')';
  }

  void negation(const Expr& e) {
    out_ += "(not ";
    print(e);
    out_ += ')';
  }

  void call(const std::string& head, const std::vector<Expr>& a) {
    out_ += head;
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (i > 0) out_ += ", ";
      print(a[i]);
    }
    out_ += ')';
  }

  std::string out_;
};

}  // namespace

Expr Expr::parse(std::string_view text) { return Parser(text).parse(); }

std::string Expr::text() const {
  Printer printer;
  printer.print(*this);
  return printer.take();
}

}  // namespace tilesim
