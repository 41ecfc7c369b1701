// Formulas of one variable in a normal form, to compare spellings of a function. Internal to this module.
#pragma once

#include <memory>
#include <vector>

#include "tilesim/base/functions/functions.hpp"

namespace tilesim::recognition {

/// A sum of products of the variable and of functions of other formulas. Sums, products, differences, quotients,
/// negations and small powers are expanded, so that order and grouping do not matter; other functions are compared
/// operand by operand. An expression is invalid if it cancels a part that could be infinite or NaN (x - x, 0 * x), or
/// if it becomes too long. Zeros of both signs count as equal.
class Formula {
 public:
  static Formula variable();
  /// `error`: limit on the rounding error of the number, which was rounded to a dtype.
  static Formula number(double value, double error = 0);
  static Formula none();
  static Formula apply(Function function, const std::vector<Formula>& operands);

  bool valid() const { return valid_; }
  /// Whether both formulas have equal structure, and numbers that differ by at most their errors.
  bool same(const Formula& other) const;

  friend Formula operator+(const Formula& a, const Formula& b);
  friend Formula operator*(const Formula& a, const Formula& b);

 private:
  /// The variable, or a function applied to formulas.
  struct Atom;
  struct Term {
    double factor, error;
    std::vector<std::shared_ptr<const Atom>> atoms;
  };

  static Formula atom(Function function, const std::vector<Formula>& operands);
  static Formula quotient(const Formula& a, const Formula& b);
  static Formula power(const Formula& base, const Formula& exponent);
  static Formula odd(Function function, const Formula& x);
  static Formula select(const Formula& condition, const Formula& yes, const Formula& no);
  static bool same(const Atom& a, const Atom& b);
  static bool same_atoms(const Term& a, const Term& b);
  bool is(double value) const;  ///< equals this number, with error 0
  bool is_number() const { return valid_ && (terms_.empty() || (terms_.size() == 1 && terms_[0].atoms.empty())); }
  bool negative() const;       ///< every term has a negative factor
  const Atom* single() const;  ///< the atom, if the formula is a single atom

  std::vector<Term> terms_;
  bool valid_ = true;
};

}  // namespace tilesim::recognition
