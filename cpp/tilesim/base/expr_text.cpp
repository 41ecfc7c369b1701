// Text form of expressions: printing and parsing.
#include <cctype>

#include "tilesim/base/error.hpp"
#include "tilesim/base/expr.hpp"

namespace tilesim {

namespace {

using K = Expr::Kind;

std::string call(const std::string& name, const std::vector<Expr>& arguments) {
  std::string text = name + "(";
  for (std::size_t i = 0; i < arguments.size(); ++i) text += (i ? ", " : "") + arguments[i].text();
  return text + ")";
}

std::string wrapped(const Expr& e) {
  const bool plain = e.kind() == K::symbol || e.kind() == K::read || e.kind() == K::min || e.kind() == K::max ||
                     (e.kind() == K::constant && e.value() >= 0);
  return plain ? e.text() : "(" + e.text() + ")";
}

/// Recursive descent over the grammar of expr.hpp.
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
    throw UserError({what + " at column " + std::to_string(position_ + 1) + " of an expression", {}, "'" + std::string(text_) + "'", {}, {}});
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

  static bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; }

  Expr disjunction() {
    Expr left = conjunction();
    while (accept("or")) left = logic(K::logical_or, left, conjunction());
    return left;
  }

  Expr conjunction() {
    Expr left = negation();
    while (accept("and")) left = logic(K::logical_and, left, negation());
    return left;
  }

  Expr negation() {
    if (accept("not")) return equal_zero(negation());
    return comparison();
  }

  static Expr equal_zero(const Expr& e) { return equal(e, Expr(0)); }

  /// Truth values are 0 and 1: `and` is their minimum, `or` their maximum.
  static Expr logic(K kind, const Expr& a, const Expr& b) {
    const auto truth = [](const Expr& e) {
      const bool boolean = e.kind() == K::equal || e.kind() == K::less || e.kind() == K::less_equal;
      return boolean ? e : Expr(1) - equal_zero(e);
    };
    return kind == K::logical_and ? min(truth(a), truth(b)) : max(truth(a), truth(b));
  }

  Expr comparison() {
    Expr left = sum();
    if (accept("==")) return equal(left, sum());
    if (accept("!=")) return Expr(1) - equal(left, sum());
    if (accept("<=")) return less_equal(left, sum());
    if (accept(">=")) return less_equal(sum(), left);
    if (accept("<")) return less(left, sum());
    if (accept(">")) return less(sum(), left);
    return left;
  }

  Expr sum() {
    Expr left = product();
    while (true) {
      if (accept("+")) left = left + product();
      else if (accept("-")) left = left - product();
      else return left;
    }
  }

  Expr product() {
    Expr left = unary();
    while (true) {
      if (accept("//")) left = floor_div(left, constant());
      else if (accept("*")) left = left * unary();
      else if (accept("%")) left = modulo(left, constant());
      else return left;
    }
  }

  std::int64_t constant() {
    const Expr value = unary();
    if (!value.is_constant()) fail("expected a constant");
    return value.value();
  }

  Expr unary() {
    if (accept("-")) return Expr(0) - unary();
    return primary();
  }

  std::vector<Expr> arguments() {
    std::vector<Expr> list{disjunction()};
    while (accept(",")) list.push_back(disjunction());
    expect(")");
    return list;
  }

  Expr primary() {
    skip();
    if (++depth_ > 400) fail("too deep");
    Expr result = primary_inner();
    --depth_;
    return result;
  }

  Expr primary_inner() {
    if (accept("(")) {
      Expr inside = disjunction();
      expect(")");
      return inside;
    }
    if (position_ >= text_.size()) fail("expected a value");
    if (std::isdigit(static_cast<unsigned char>(text_[position_]))) return number();
    if (!std::isalpha(static_cast<unsigned char>(text_[position_])) && text_[position_] != '_') fail("unexpected character");
    const std::size_t begin = position_;
    while (position_ < text_.size() && is_name(text_[position_])) ++position_;
    const std::string name(text_.substr(begin, position_ - begin));
    return accept("(") ? function(name) : Expr::symbol(name);
  }

  Expr number() {
    std::int64_t value = 0;
    while (position_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[position_]))) {
      if (__builtin_mul_overflow(value, std::int64_t{10}, &value) ||
          __builtin_add_overflow(value, std::int64_t{text_[position_] - '0'}, &value))
        fail("a number beyond 64 bits");
      ++position_;
    }
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
      for (std::size_t i = 1; i < list.size(); ++i) result = name == "min" ? min(result, list[i]) : max(result, list[i]);
      return result;
    }
    if (name == "ceildiv") {
      if (list.size() != 2 || !list[1].is_constant()) fail("ceildiv takes an expression and a constant");
      return ceil_div(list[0], list[1].value());
    }
    fail("unknown function '" + name + "' (allowed: min, max, ceildiv, read)");
  }

  std::string_view text_;
  std::size_t position_ = 0;
  int depth_ = 0;
};

}  // namespace

Expr Expr::parse(std::string_view text) { return Parser(text).parse(); }

std::string Expr::text() const {
  const std::vector<Expr>& a = arguments();
  switch (kind()) {
    case Kind::constant: return std::to_string(value());
    case Kind::symbol: return name();
    case Kind::add: {
      std::string text = a[0].text();
      for (std::size_t i = 1; i < a.size(); ++i) {
        const std::string part = a[i].text();
        text += part[0] == '-' ? " - " + part.substr(1) : " + " + part;
      }
      return text;
    }
    case Kind::multiply: return std::to_string(operand()) + "*" + wrapped(a[0]);
    case Kind::floor_div: return wrapped(a[0]) + " // " + std::to_string(operand());
    case Kind::modulo: return wrapped(a[0]) + " % " + std::to_string(operand());
    case Kind::min: return call("min", a);
    case Kind::max: return call("max", a);
    case Kind::equal: return "(" + a[0].text() + " == " + a[1].text() + ")";
    case Kind::less: return "(" + a[0].text() + " < " + a[1].text() + ")";
    case Kind::less_equal: return "(" + a[0].text() + " <= " + a[1].text() + ")";
    case Kind::logical_and: return "(" + a[0].text() + " and " + a[1].text() + ")";
    case Kind::logical_or: return "(" + a[0].text() + " or " + a[1].text() + ")";
    case Kind::logical_not: return "(not " + a[0].text() + ")";
    case Kind::read: return "read(" + name() + (a.empty() ? "" : ", ") + [&] {
      std::string text;
      for (std::size_t i = 0; i < a.size(); ++i) text += (i ? ", " : "") + a[i].text();
      return text;
    }() + ")";
  }
  return {};
}

}  // namespace tilesim
