#include "tilesim/graph/patterns/formula.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tilesim::recognition {

namespace {

using enum Function;

constexpr std::size_t most_terms = 12, most_factors = 8;

bool commutes(Function function) { return function == maximum || function == minimum; }

}  // namespace

struct Formula::Atom {
  bool variable;
  Function function;
  std::vector<Formula> operands;
};

Formula Formula::variable() {
  Formula made;
  made.terms_.push_back({1, 0, {std::make_shared<const Atom>(Atom{true, identity, {}})}});
  return made;
}

Formula Formula::number(double value, double error) {
  Formula made;
  if (std::isnan(value)) return none();
  if (value != 0) made.terms_.push_back({value, error, {}});
  return made;
}

Formula Formula::none() {
  Formula made;
  made.valid_ = false;
  return made;
}

Formula Formula::atom(Function function, const std::vector<Formula>& operands) {
  Formula made;
  made.terms_.push_back({1, 0, {std::make_shared<const Atom>(Atom{false, function, operands})}});
  return made;
}

bool Formula::is(double value) const {
  return is_number() && (terms_.empty() ? value == 0 : terms_[0].factor == value);
}

bool Formula::negative() const {
  return !terms_.empty() && std::ranges::all_of(terms_, [](const Term& term) { return term.factor < 0; });
}

const Formula::Atom* Formula::single() const {
  const bool one = valid_ && terms_.size() == 1 && terms_[0].atoms.size() == 1 && terms_[0].factor == 1;
  return one ? terms_[0].atoms[0].get() : nullptr;
}

Formula operator+(const Formula& a, const Formula& b) {
  if (!a.valid_ || !b.valid_) return Formula::none();
  Formula sum = a;
  for (const Formula::Term& term : b.terms_) {
    const auto like =
        std::ranges::find_if(sum.terms_, [&](const Formula::Term& own) { return Formula::same_atoms(own, term); });
    if (like == sum.terms_.end()) {
      sum.terms_.push_back(term);
      continue;
    }
    like->factor += term.factor;
    like->error += term.error;
    if (!std::isfinite(like->factor)) return Formula::none();
    if (like->factor != 0) continue;
    if (!like->atoms.empty()) return Formula::none();  // infinity less itself is not 0
    sum.terms_.erase(like);
  }
  return sum.terms_.size() > most_terms ? Formula::none() : sum;
}

Formula operator*(const Formula& a, const Formula& b) {
  if (!a.valid_ || !b.valid_) return Formula::none();
  const bool zero = a.terms_.empty() || b.terms_.empty();
  if (zero && !(a.is_number() && b.is_number())) return Formula::none();  // 0 times infinity is not 0
  Formula product;
  for (const Formula::Term& left : a.terms_) {
    Formula row;
    for (const Formula::Term& right : b.terms_) {
      Formula::Term term{left.factor * right.factor, 0, left.atoms};
      term.error = std::abs(left.factor) * right.error + std::abs(right.factor) * left.error;
      term.atoms.insert(term.atoms.end(), right.atoms.begin(), right.atoms.end());
      if (!std::isfinite(term.factor) || term.factor == 0 || term.atoms.size() > most_factors) return Formula::none();
      row.terms_.push_back(std::move(term));
    }
    product = product + row;
  }
  return product;
}

Formula Formula::quotient(const Formula& a, const Formula& b) {
  if (!a.valid_ || !b.valid_ || b.terms_.empty()) return none();
  if (b.terms_.size() > 1) return a * atom(reciprocal, {b});
  const Term& below = b.terms_[0];
  if (!std::isfinite(below.factor)) return none();
  const Formula scale = number(1 / below.factor, below.error / (below.factor * below.factor));
  if (below.atoms.empty()) return a * scale;
  Formula rest;
  rest.terms_.push_back({1, 0, below.atoms});
  return a * scale * atom(reciprocal, {rest});
}

Formula Formula::power(const Formula& base, const Formula& exponent) {
  for (const int whole : {1, 2, 3, 4}) {
    if (!exponent.is(whole)) continue;
    Formula product = base;
    for (int i = 1; i < whole; ++i) product = product * base;
    return product;
  }
  return atom(Function::power, {base, exponent});
}

Formula Formula::odd(Function function, const Formula& x) {
  const Formula minus = number(-1);
  return x.negative() ? minus * atom(function, {minus * x}) : atom(function, {x});
}

Formula Formula::select(const Formula& condition, const Formula& yes, const Formula& no) {
  const Atom* test = condition.single();
  const bool below = test != nullptr && !test->variable && (test->function == less || test->function == less_equal);
  // 0 where x < 0, else x: NaN stays NaN, as in relu. (x where x > 0, else 0, turns NaN into 0.)
  if (below && test->operands[1].is(0) && yes.is(0) && test->operands[0].same(no)) return atom(relu, {no});
  return atom(Function::select, {condition, yes, no});
}

Formula Formula::apply(Function function, const std::vector<Formula>& operands) {
  if (!std::ranges::all_of(operands, &Formula::valid)) return none();
  const Formula& x = operands[0];
  const Formula minus = number(-1);
  switch (function) {
    case identity:
      return x;
    case negate:
      return minus * x;
    case add:
      return x + operands[1];
    case subtract:
      return x + minus * operands[1];
    case multiply:
      return x * operands[1];
    case divide:
      return quotient(x, operands[1]);
    case reciprocal:
      return quotient(number(1), x);
    case Function::power:
      return power(x, operands[1]);
    case tanh:
    case erf:
      return odd(function, x);
    case abs:
      return atom(abs, {x.negative() ? minus * x : x});
    case maximum:
      if (x.is(0) || operands[1].is(0)) return atom(relu, {x.is(0) ? operands[1] : x});
      return atom(maximum, operands);
    case clamp:
      if (x.is(0) && operands[2].is(std::numeric_limits<double>::infinity())) return atom(relu, {operands[1]});
      return atom(clamp, operands);
    case greater:
      return atom(less, {operands[1], x});
    case greater_equal:
      return atom(less_equal, {operands[1], x});
    case not_equal:
      return x.same(operands[1]) ? atom(is_nan, {x}) : atom(not_equal, operands);
    case Function::select:
      return select(x, operands[1], operands[2]);
    default:
      return atom(function, operands);
  }
}

bool Formula::same(const Atom& a, const Atom& b) {
  if (&a == &b) return true;
  if (a.variable || b.variable) return a.variable == b.variable;
  if (a.function != b.function || a.operands.size() != b.operands.size()) return false;
  const auto equal = [](const Formula& left, const Formula& right) { return left.same(right); };
  if (std::ranges::equal(a.operands, b.operands, equal)) return true;
  return commutes(a.function) && a.operands[0].same(b.operands[1]) && a.operands[1].same(b.operands[0]);
}

bool Formula::same_atoms(const Term& a, const Term& b) {
  if (a.atoms.size() != b.atoms.size()) return false;
  std::vector<bool> taken(b.atoms.size(), false);
  for (const auto& atom : a.atoms) {
    std::size_t i = 0;
    while (i < b.atoms.size() && (taken[i] || !same(*atom, *b.atoms[i]))) ++i;
    if (i == b.atoms.size()) return false;
    taken[i] = true;
  }
  return true;
}

bool Formula::same(const Formula& other) const {
  if (!valid_ || !other.valid_ || terms_.size() != other.terms_.size()) return false;
  std::vector<bool> taken(terms_.size(), false);
  for (const Term& term : terms_) {
    const auto matches = [&](const Term& theirs) {
      if (term.factor == theirs.factor) return same_atoms(term, theirs);
      constexpr double arithmetic = 1e-15;  // of the factors themselves, in f64
      const double within = term.error + theirs.error + arithmetic * std::abs(theirs.factor);
      return std::abs(term.factor - theirs.factor) <= within && same_atoms(term, theirs);
    };
    std::size_t i = 0;
    while (i < terms_.size() && (taken[i] || !matches(other.terms_[i]))) ++i;
    if (i == terms_.size()) return false;
    taken[i] = true;
  }
  return true;
}

}  // namespace tilesim::recognition
