#include "tilesim/base/expr.hpp"

#include <algorithm>
#include <limits>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"

namespace tilesim {

struct Expr::Node {
  Kind kind = Kind::constant;
  std::int64_t value = 0;  ///< constant; factor of multiply; divisor of floor_div and modulo
  std::string name;        ///< symbol, read
  std::vector<Expr> arguments;
};

class ExprBuilder {
 public:
  static Expr make(Expr::Kind kind, std::int64_t value, std::string name, std::vector<Expr> arguments) {
    return Expr(std::make_shared<const Expr::Node>(Expr::Node{kind, value, std::move(name), std::move(arguments)}));
  }
};

namespace {

using K = Expr::Kind;

std::int64_t checked_add(std::int64_t a, std::int64_t b) {
  std::int64_t r;
  if (__builtin_add_overflow(a, b, &r)) throw UserError("an expression leaves the range of 64-bit integers");
  return r;
}

std::int64_t checked_multiply(std::int64_t a, std::int64_t b) {
  std::int64_t r;
  if (__builtin_mul_overflow(a, b, &r)) throw UserError("an expression leaves the range of 64-bit integers");
  return r;
}

/// A sum as constant + coefficient * term, terms distinct.
struct Sum {
  std::int64_t constant = 0;
  std::vector<std::pair<Expr, std::int64_t>> terms;

  void add(const Expr& e, std::int64_t factor) {
    switch (e.kind()) {
      case K::constant: constant = checked_add(constant, checked_multiply(e.value(), factor)); return;
      case K::add:
        for (const Expr& part : e.arguments()) add(part, factor);
        return;
      case K::multiply: add(e.arguments()[0], checked_multiply(factor, e.operand())); return;
      default: break;
    }
    for (auto& [term, coefficient] : terms)
      if (term == e) {
        coefficient = checked_add(coefficient, factor);
        return;
      }
    terms.emplace_back(e, factor);
  }

  Expr build() const {
    std::vector<Expr> parts;
    for (const auto& [term, coefficient] : terms) {
      if (coefficient == 0) continue;
      parts.push_back(coefficient == 1 ? term : ExprBuilder::make(K::multiply, coefficient, {}, {term}));
    }
    if (parts.empty()) return constant;
    if (constant != 0) parts.emplace_back(constant);
    return parts.size() == 1 ? parts[0] : ExprBuilder::make(K::add, 0, {}, std::move(parts));
  }
};

Expr make_extreme(K kind, const Expr& a, const Expr& b) {
  if (a.is_constant() && b.is_constant()) return kind == K::min ? std::min(a.value(), b.value()) : std::max(a.value(), b.value());
  if (a == b) return a;
  return ExprBuilder::make(kind, 0, {}, {a, b});
}

Expr make_compare(K kind, const Expr& a, const Expr& b) {
  const Expr difference = a - b;
  if (difference.is_constant()) {
    const std::int64_t d = difference.value();
    return kind == K::equal ? d == 0 : kind == K::less ? d < 0 : d <= 0;
  }
  return ExprBuilder::make(kind, 0, {}, {a, b});
}

}  // namespace

Expr::Expr(std::int64_t value) : node_(std::make_shared<const Node>(Node{Kind::constant, value, {}, {}})) {}
Expr Expr::symbol(std::string name) { return ExprBuilder::make(Kind::symbol, 0, std::move(name), {}); }
Expr Expr::read(std::string tensor, std::vector<Expr> index) { return ExprBuilder::make(Kind::read, 0, std::move(tensor), std::move(index)); }

std::int64_t Expr::operand() const { return node_->value; }
Expr::Kind Expr::kind() const { return node_->kind; }
std::int64_t Expr::value() const {
  require(is_constant(), "value() of an expression that is not constant");
  return node_->value;
}
const std::string& Expr::name() const { return node_->name; }
const std::vector<Expr>& Expr::arguments() const { return node_->arguments; }

Expr operator+(const Expr& a, const Expr& b) {
  Sum sum;
  sum.add(a, 1);
  sum.add(b, 1);
  return sum.build();
}

Expr operator-(const Expr& a, const Expr& b) {
  Sum sum;
  sum.add(a, 1);
  sum.add(b, -1);
  return sum.build();
}

Expr operator*(const Expr& a, const Expr& b) {
  if (!a.is_constant() && !b.is_constant())
    throw UserError({"a product needs a constant factor", {}, "(" + a.text() + ") * (" + b.text() + ")", "expression * constant", {}});
  Sum sum;
  if (a.is_constant()) sum.add(b, a.value());
  else sum.add(a, b.value());
  return sum.build();
}

bool operator==(const Expr& a, const Expr& b) {
  if (a.node_ == b.node_) return true;
  const Expr::Node &x = *a.node_, &y = *b.node_;
  return x.kind == y.kind && x.value == y.value && x.name == y.name && x.arguments == y.arguments;
}

Expr floor_div(const Expr& a, std::int64_t b) {
  if (b <= 0) throw UserError({"division needs a positive constant", {}, std::to_string(b), "1 and above", {}});
  if (a.is_constant()) return floor_div(a.value(), b);
  return b == 1 ? a : ExprBuilder::make(K::floor_div, b, {}, {a});
}

Expr ceil_div(const Expr& a, std::int64_t b) {
  if (b <= 0) throw UserError({"division needs a positive constant", {}, std::to_string(b), "1 and above", {}});
  return floor_div(a + Expr(b - 1), b);
}

Expr modulo(const Expr& a, std::int64_t b) {
  if (b <= 0) throw UserError({"a remainder needs a positive constant", {}, std::to_string(b), "1 and above", {}});
  if (a.is_constant()) return floor_mod(a.value(), b);
  return b == 1 ? Expr(0) : ExprBuilder::make(K::modulo, b, {}, {a});
}

Expr min(const Expr& a, const Expr& b) { return make_extreme(K::min, a, b); }
Expr max(const Expr& a, const Expr& b) { return make_extreme(K::max, a, b); }
Expr equal(const Expr& a, const Expr& b) { return make_compare(K::equal, a, b); }
Expr less(const Expr& a, const Expr& b) { return make_compare(K::less, a, b); }
Expr less_equal(const Expr& a, const Expr& b) { return make_compare(K::less_equal, a, b); }

std::set<std::string> Expr::symbols() const {
  std::set<std::string> names;
  if (kind() == Kind::symbol) names.insert(name());
  for (const Expr& argument : arguments()) names.merge(argument.symbols());
  return names;
}

bool Expr::reads_tensors() const {
  return kind() == Kind::read || std::any_of(arguments().begin(), arguments().end(), [](const Expr& e) { return e.reads_tensors(); });
}

namespace {

/// Rebuilds a node of the same kind over other arguments, with simplification.
Expr rebuild(const Expr& e, std::vector<Expr> arguments) {
  const auto truth = [](const Expr& x) { return x.is_constant() ? (x.value() != 0 ? 1 : 0) : -1; };
  switch (e.kind()) {
    case K::constant: case K::symbol: return e;
    case K::add: {
      Sum sum;
      for (const Expr& part : arguments) sum.add(part, 1);
      return sum.build();
    }
    case K::multiply: return arguments[0] * Expr(e.operand());
    case K::floor_div: return floor_div(arguments[0], e.operand());
    case K::modulo: return modulo(arguments[0], e.operand());
    case K::min: return min(arguments[0], arguments[1]);
    case K::max: return max(arguments[0], arguments[1]);
    case K::equal: case K::less: case K::less_equal: return make_compare(e.kind(), arguments[0], arguments[1]);
    case K::logical_not:
      return truth(arguments[0]) >= 0 ? Expr(1 - truth(arguments[0])) : ExprBuilder::make(K::logical_not, 0, {}, std::move(arguments));
    case K::logical_and: case K::logical_or: {
      const int a = truth(arguments[0]), b = truth(arguments[1]), absorbing = e.kind() == K::logical_and ? 0 : 1;
      if (a == absorbing || b == absorbing) return absorbing;
      if (a >= 0 && b >= 0) return 1 - absorbing;
      return ExprBuilder::make(e.kind(), 0, {}, std::move(arguments));
    }
    case K::read: return Expr::read(e.name(), std::move(arguments));
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

std::int64_t Expr::evaluate(const Lookup& lookup, const Reader& read_tensor) const {
  const auto at = [&](std::size_t i) { return arguments()[i].evaluate(lookup, read_tensor); };
  switch (kind()) {
    case Kind::constant: return node_->value;
    case Kind::symbol: return lookup(name());
    case Kind::add: {
      std::int64_t sum = 0;
      for (std::size_t i = 0; i < arguments().size(); ++i) sum = checked_add(sum, at(i));
      return sum;
    }
    case Kind::multiply: return checked_multiply(at(0), node_->value);
    case Kind::floor_div: return tilesim::floor_div(at(0), node_->value);
    case Kind::modulo: return floor_mod(at(0), node_->value);
    case Kind::min: return std::min(at(0), at(1));
    case Kind::max: return std::max(at(0), at(1));
    case Kind::equal: return at(0) == at(1);
    case Kind::less: return at(0) < at(1);
    case Kind::less_equal: return at(0) <= at(1);
    case Kind::logical_and: return at(0) != 0 && at(1) != 0;
    case Kind::logical_or: return at(0) != 0 || at(1) != 0;
    case Kind::logical_not: return at(0) == 0;
    case Kind::read: {
      if (!read_tensor) throw UserError({"the expression reads a tensor whose values are not known here", {}, name(), {}, {}});
      std::vector<std::int64_t> index;
      for (std::size_t i = 0; i < arguments().size(); ++i) index.push_back(at(i));
      return read_tensor(name(), index);
    }
  }
  throw InternalError("unknown expression kind");
}

namespace {

constexpr std::int64_t lowest = std::numeric_limits<std::int64_t>::min() / 4;
constexpr std::int64_t highest = std::numeric_limits<std::int64_t>::max() / 4;

/// Saturating product of a bound and a factor.
std::int64_t scaled(std::int64_t bound, std::int64_t factor) {
  const auto wide = static_cast<long double>(bound) * static_cast<long double>(factor);
  if (wide <= static_cast<long double>(lowest)) return lowest;
  if (wide >= static_cast<long double>(highest)) return highest;
  return bound * factor;
}

}  // namespace

Expr::Range Expr::range(const std::map<std::string, Range>& symbols) const {
  const auto at = [&](std::size_t i) { return arguments()[i].range(symbols); };
  const auto clamp = [](std::int64_t v) { return std::clamp(v, lowest, highest); };
  switch (kind()) {
    case Kind::constant: return {node_->value, node_->value};
    case Kind::symbol: {
      const auto found = symbols.find(name());
      return found == symbols.end() ? Range{lowest, highest} : found->second;
    }
    case Kind::read: return {lowest, highest};
    case Kind::add: {
      Range sum{0, 0};
      for (std::size_t i = 0; i < arguments().size(); ++i) sum = {clamp(sum.low + clamp(at(i).low)), clamp(sum.high + clamp(at(i).high))};
      return sum;
    }
    case Kind::multiply: {
      const Range r = at(0);
      const std::int64_t a = scaled(r.low, node_->value), b = scaled(r.high, node_->value);
      return {std::min(a, b), std::max(a, b)};
    }
    case Kind::floor_div: return {tilesim::floor_div(at(0).low, node_->value), tilesim::floor_div(at(0).high, node_->value)};
    case Kind::modulo: {
      const Range r = at(0);
      const bool same = tilesim::floor_div(r.low, node_->value) == tilesim::floor_div(r.high, node_->value);
      return same ? Range{floor_mod(r.low, node_->value), floor_mod(r.high, node_->value)} : Range{0, node_->value - 1};
    }
    case Kind::min: return {std::min(at(0).low, at(1).low), std::min(at(0).high, at(1).high)};
    case Kind::max: return {std::max(at(0).low, at(1).low), std::max(at(0).high, at(1).high)};
    default: return {0, 1};
  }
}

}  // namespace tilesim
