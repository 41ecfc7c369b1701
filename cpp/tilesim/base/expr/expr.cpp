// Expressions as shared nodes: construction and simplification.
#include "tilesim/base/expr/expr.hpp"

#include <algorithm>
#include <cctype>
#include <numeric>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"

namespace tilesim {

struct Expr::Node {
  Kind kind = Kind::constant;
  std::int64_t value = 0;  ///< constant; factor of multiply; divisor of floor_div and modulo
  std::string name;        ///< symbol, read
  std::vector<Expr> arguments;
  int depth = 1;
};

namespace {

/// Limit on the depth of trees, because recursion over deeper trees could overflow the stack.
constexpr int depth_limit = 500;

}  // namespace

class ExprBuilder {
 public:
  static Expr make(Expr::Kind kind, std::int64_t value, std::string name, std::vector<Expr> arguments) {
    int depth = 1;
    for (const Expr& argument : arguments) depth = std::max(depth, argument.node_->depth + 1);
    if (depth > depth_limit)
      throw UserError({"an expression is nested too deeply", {}, {}, std::to_string(depth_limit) + " levels", {}});
    return Expr(
        std::make_shared<const Expr::Node>(Expr::Node{kind, value, std::move(name), std::move(arguments), depth}));
  }
};

namespace {

using K = Expr::Kind;

/// A sum as constant + coefficient * term, with distinct terms.
struct LinearSum {
  std::int64_t constant = 0;
  std::vector<std::pair<Expr, std::int64_t>> terms;
  bool overflow = false;

  LinearSum() = default;
  explicit LinearSum(const Expr& e) { add(e, 1); }

  void add(const Expr& e, std::int64_t factor) {
    std::int64_t product = 0;
    switch (e.kind()) {
      case K::constant:
        overflow |= __builtin_mul_overflow(e.value(), factor, &product);
        overflow |= __builtin_add_overflow(constant, product, &constant);
        return;
      case K::add:
        for (const Expr& part : e.arguments()) add(part, factor);
        return;
      case K::multiply:
        overflow |= __builtin_mul_overflow(e.operand(), factor, &product);
        add(e.arguments()[0], product);
        return;
      default:
        break;
    }
    for (auto& [term, coefficient] : terms)
      if (term == e) {
        overflow |= __builtin_add_overflow(coefficient, factor, &coefficient);
        return;
      }
    terms.emplace_back(e, factor);
  }

  Expr build() const {
    if (overflow) throw UserError("an expression leaves the range of 64-bit integers");
    std::vector<Expr> parts;
    for (const auto& [term, coefficient] : terms) {
      if (coefficient == 0) continue;
      parts.push_back(coefficient == 1 ? term : ExprBuilder::make(K::multiply, coefficient, {}, {term}));
    }
    if (parts.empty()) return constant;
    if (constant != 0) parts.emplace_back(constant);
    return parts.size() == 1 ? parts[0] : ExprBuilder::make(K::add, 0, {}, std::move(parts));
  }

  bool is_constant() const {
    return std::all_of(terms.begin(), terms.end(), [](const auto& term) { return term.second == 0; });
  }

  /// Removes the multiples of `divisor` and returns them, divided by it. The remaining constant is in [0, divisor).
  LinearSum take_multiples(std::int64_t divisor) {
    LinearSum multiples;
    multiples.constant = floor_div(constant, divisor);
    constant = floor_mod(constant, divisor);
    const auto whole = [&](const auto& term) { return term.second % divisor == 0; };
    for (const auto& [term, coefficient] : terms)
      if (coefficient % divisor == 0) multiples.terms.emplace_back(term, coefficient / divisor);
    std::erase_if(terms, whole);
    return multiples;
  }
};

std::vector<Expr> two(const Expr& a, const Expr& b) { return {a, b}; }

void check_divisor(std::int64_t divisor, const char* what) {
  if (divisor <= 0)
    throw UserError({std::string(what) + " needs a positive constant", {}, std::to_string(divisor), "1 and above", {}});
}

std::int64_t extreme(K kind, std::int64_t a, std::int64_t b) {
  return kind == K::min ? std::min(a, b) : std::max(a, b);
}

/// Index of a constant argument of min or max, to merge min(min(x, c), d); -1: none.
int constant_argument(const Expr& e, K kind) {
  if (e.kind() != kind) return -1;
  return e.arguments()[0].is_constant() ? 0 : e.arguments()[1].is_constant() ? 1 : -1;
}

Expr make_extreme(K kind, const Expr& a, const Expr& b) {
  LinearSum difference(a);
  difference.add(b, -1);
  if (!difference.overflow && difference.is_constant()) return (difference.constant <= 0) == (kind == K::min) ? a : b;
  for (const auto& [nested, other] : {std::pair(a, b), std::pair(b, a)}) {
    const int place = constant_argument(nested, kind);
    if (place < 0 || !other.is_constant()) continue;
    const Expr limit = extreme(kind, nested.arguments()[static_cast<std::size_t>(place)].value(), other.value());
    return ExprBuilder::make(kind, 0, {}, two(nested.arguments()[static_cast<std::size_t>(1 - place)], limit));
  }
  return ExprBuilder::make(kind, 0, {}, two(a, b));
}

Expr make_compare(K kind, const Expr& a, const Expr& b) {
  LinearSum difference(a);
  difference.add(b, -1);
  if (!difference.overflow && difference.is_constant()) {
    const std::int64_t d = difference.constant;
    return kind == K::equal ? d == 0 : kind == K::less ? d < 0 : d <= 0;
  }
  return ExprBuilder::make(kind, 0, {}, two(a, b));
}

/// Whether the value can only be 0 or 1.
bool is_truth(const Expr& e) {
  switch (e.kind()) {
    case K::constant:
      return e.value() == 0 || e.value() == 1;
    case K::equal:
    case K::less:
    case K::less_equal:
    case K::logical_and:
    case K::logical_or:
    case K::logical_not:
      return true;
    case K::min:
    case K::max:
      return is_truth(e.arguments()[0]) && is_truth(e.arguments()[1]);
    default:
      return false;
  }
}

Expr truth(const Expr& e) {
  return is_truth(e) ? e : e.is_constant() ? Expr(1) : ExprBuilder::make(K::logical_not, 0, {}, {logical_not(e)});
}

bool same_arguments_in_any_order(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  return a.size() == b.size() && std::all_of(a.begin(), a.end(), [&](const Expr& part) {
           return std::find(b.begin(), b.end(), part) != b.end();  // parts of a sum are distinct
         });
}

bool is_name(std::string_view text) {
  const auto allowed = [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '.'; };
  if (text.empty() || std::isdigit(static_cast<unsigned char>(text[0])) || text[0] == '.') return false;
  return std::all_of(text.begin(), text.end(), allowed) && text != "and" && text != "or" && text != "not";
}

std::string checked_name(std::string name) {
  if (!is_name(name))
    throw UserError({"not a name for an expression",
                     {},
                     "'" + name + "'",
                     "letters, digits, '_' and '.', beginning with a letter or '_'; not and, or, not",
                     {}});
  return name;
}

}  // namespace

Expr::Expr(std::int64_t value) : node_(std::make_shared<const Node>(Node{Kind::constant, value, {}, {}, 1})) {}
Expr Expr::symbol(std::string name) { return ExprBuilder::make(Kind::symbol, 0, checked_name(std::move(name)), {}); }
Expr Expr::read(std::string tensor, std::vector<Expr> index) {
  return ExprBuilder::make(Kind::read, 0, checked_name(std::move(tensor)), std::move(index));
}

std::int64_t Expr::operand() const { return node_->value; }
Expr::Kind Expr::kind() const { return node_->kind; }
std::int64_t Expr::value() const {
  require(is_constant(), "value() of an expression that is not constant");
  return node_->value;
}
const std::string& Expr::name() const { return node_->name; }
const std::vector<Expr>& Expr::arguments() const { return node_->arguments; }

Expr operator+(const Expr& a, const Expr& b) {
  LinearSum sum(a);
  sum.add(b, 1);
  return sum.build();
}

Expr operator-(const Expr& a, const Expr& b) {
  LinearSum sum(a);
  sum.add(b, -1);
  return sum.build();
}

Expr operator*(const Expr& a, const Expr& b) {
  if (!a.is_constant() && !b.is_constant())
    throw UserError({"a product needs a constant factor",
                     {},
                     "(" + a.text() + ") * (" + b.text() + ")",
                     "expression * constant",
                     {}});
  LinearSum sum;
  if (a.is_constant())
    sum.add(b, a.value());
  else
    sum.add(a, b.value());
  return sum.build();
}

bool operator==(const Expr& a, const Expr& b) {
  if (a.node_ == b.node_) return true;
  const Expr::Node &x = *a.node_, &y = *b.node_;
  if (x.kind != y.kind || x.value != y.value || x.name != y.name) return false;
  return x.kind == K::add ? same_arguments_in_any_order(x.arguments, y.arguments) : x.arguments == y.arguments;
}

Expr floor_div(const Expr& a, std::int64_t b) {
  check_divisor(b, "division");
  if (b == 1) return a;
  LinearSum inner(a);
  const LinearSum multiples = inner.take_multiples(b);
  if (inner.overflow) throw UserError("an expression leaves the range of 64-bit integers");
  if (inner.terms.empty()) return multiples.build();  // its constant is in [0, b)
  // (g A + r) // (g B) = (A + r // g) // B
  std::int64_t common = b;
  for (const auto& [term, coefficient] : inner.terms) common = std::gcd(common, coefficient % common);
  for (auto& [term, coefficient] : inner.terms) coefficient /= common;
  inner.constant /= common;
  const std::int64_t divisor = b / common;
  const Expr dividend = inner.build();
  if (dividend.kind() == K::modulo && dividend.operand() <= divisor) return multiples.build();
  std::int64_t product = 0;
  if (dividend.kind() == K::floor_div && !__builtin_mul_overflow(dividend.operand(), divisor, &product))
    return multiples.build() + floor_div(dividend.arguments()[0], product);
  return multiples.build() + ExprBuilder::make(K::floor_div, divisor, {}, {dividend});
}

Expr ceil_div(const Expr& a, std::int64_t b) {
  check_divisor(b, "division");
  return floor_div(a + Expr(b - 1), b);
}

Expr modulo(const Expr& a, std::int64_t b) {
  check_divisor(b, "a remainder");
  if (b == 1) return 0;
  LinearSum inner(a);
  inner.take_multiples(b);
  const Expr dividend = inner.build();
  if (dividend.is_constant()) return dividend;
  if (dividend.kind() == K::modulo) {
    if (dividend.operand() <= b) return dividend;
    if (dividend.operand() % b == 0) return modulo(dividend.arguments()[0], b);
  }
  return ExprBuilder::make(K::modulo, b, {}, {dividend});
}

Expr min(const Expr& a, const Expr& b) { return make_extreme(K::min, a, b); }
Expr max(const Expr& a, const Expr& b) { return make_extreme(K::max, a, b); }
Expr equal(const Expr& a, const Expr& b) { return make_compare(K::equal, a, b); }
Expr less(const Expr& a, const Expr& b) { return make_compare(K::less, a, b); }
Expr less_equal(const Expr& a, const Expr& b) { return make_compare(K::less_equal, a, b); }

Expr logical_and(const Expr& a, const Expr& b) {
  if (a.is_constant()) return a.value() == 0 ? Expr(0) : truth(b);
  if (b.is_constant() && b.value() != 0) return truth(a);
  return ExprBuilder::make(K::logical_and, 0, {}, two(a, b));
}

Expr logical_or(const Expr& a, const Expr& b) {
  if (a.is_constant()) return a.value() != 0 ? Expr(1) : truth(b);
  if (b.is_constant() && b.value() == 0) return truth(a);
  return ExprBuilder::make(K::logical_or, 0, {}, two(a, b));
}

Expr logical_not(const Expr& a) {
  if (a.is_constant()) return a.value() == 0;
  if (a.kind() == K::less) return less_equal(a.arguments()[1], a.arguments()[0]);
  if (a.kind() == K::less_equal) return less(a.arguments()[1], a.arguments()[0]);
  if (a.kind() == K::logical_not && is_truth(a.arguments()[0])) return a.arguments()[0];
  return ExprBuilder::make(K::logical_not, 0, {}, {a});
}

namespace {

/// The same kind of node with other arguments, simplified again.
Expr rebuild(const Expr& e, std::vector<Expr> arguments) {
  switch (e.kind()) {
    case K::constant:
    case K::symbol:
      return e;
    case K::add: {
      LinearSum sum;
      for (const Expr& part : arguments) sum.add(part, 1);
      return sum.build();
    }
    case K::multiply:
      return arguments[0] * Expr(e.operand());
    case K::floor_div:
      return floor_div(arguments[0], e.operand());
    case K::modulo:
      return modulo(arguments[0], e.operand());
    case K::min:
    case K::max:
      return make_extreme(e.kind(), arguments[0], arguments[1]);
    case K::equal:
    case K::less:
    case K::less_equal:
      return make_compare(e.kind(), arguments[0], arguments[1]);
    case K::logical_not:
      return logical_not(arguments[0]);
    case K::logical_and:
      return logical_and(arguments[0], arguments[1]);
    case K::logical_or:
      return logical_or(arguments[0], arguments[1]);
    case K::read:
      return Expr::read(e.name(), std::move(arguments));
  }
  throw InternalError("unknown expression kind");
}

}  // namespace

Expr Expr::substitute(const std::map<std::string, Expr>& values) const {
  if (kind() == Kind::symbol) {
    const auto found = values.find(name());
    return found == values.end() ? *this : found->second;
  }
  if (arguments().empty()) return *this;
  std::vector<Expr> replaced;
  for (const Expr& argument : arguments()) replaced.push_back(argument.substitute(values));
  return rebuild(*this, std::move(replaced));
}

}  // namespace tilesim
