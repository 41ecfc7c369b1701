// Quasi-affine integer expressions for addresses, extents, loop bounds and predicates.
//  Text form: integers, symbols (letters, digits, `_`, `.`), `+`, `-`, `*` (one side constant), `//` and `%` by a
// positive constant (floor division and its remainder), min(a, b, ...), max(a, b, ...), comparisons (== != < <= >= >,
// with result 0 or 1), `and`, `or` (the right side is evaluated only if it decides), `not`, ceildiv(a, constant),
// parentheses, and read(tensor, index...) for an element of an integer tensor.
//  Expressions are immutable and share subexpressions. Construction simplifies: it folds constants, keeps sums as
// constant + coefficient * term, and moves multiples of the divisor out of floor divisions and remainders.
// as constant + coefficient * term, whole multiples leave floor divisions and remainders.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tilesim {

class Expr {
 public:
  enum class Kind : std::uint8_t {
    constant,
    symbol,
    add,
    multiply,
    floor_div,
    modulo,
    min,
    max,
    equal,
    less,
    less_equal,
    logical_and,
    logical_or,
    logical_not,
    read
  };

  Expr() : Expr(std::int64_t{0}) {}
  Expr(std::int64_t value);  // NOLINT(google-explicit-constructor): integers are expressions
  Expr(int value) : Expr(static_cast<std::int64_t>(value)) {}  // NOLINT(google-explicit-constructor)
  static Expr symbol(std::string name);
  static Expr read(std::string tensor, std::vector<Expr> index);
  /// Throws UserError with the column of the error.
  static Expr parse(std::string_view text);

  Kind kind() const;
  bool is_constant() const { return kind() == Kind::constant; }
  std::int64_t value() const;       ///< valid for a constant only
  std::int64_t operand() const;     ///< factor of multiply; divisor of floor_div and modulo
  const std::string& name() const;  ///< name of a symbol or tensor
  const std::vector<Expr>& arguments() const;
  std::string text() const;  ///< `parse` turns the text into an equal expression
  std::set<std::string> symbols() const;
  bool reads_tensors() const;
  Expr substitute(const std::map<std::string, Expr>& values) const;

  /// The value with symbols from `lookup` and read() from `read_tensor`. Slow: for checks and tests.
  using Lookup = std::function<std::int64_t(const std::string&)>;
  using ElementReader = std::function<std::int64_t(const std::string&, const std::vector<std::int64_t>&)>;
  std::int64_t evaluate(const Lookup& lookup, const ElementReader& read_tensor = {}) const;
  /// An interval that contains all values, given intervals of symbols. A missing symbol and read() are unbounded.
  struct Range { std::int64_t low, high; };
  Range range(const std::map<std::string, Range>& symbols) const;

  friend Expr operator+(const Expr& a, const Expr& b);
  friend Expr operator-(const Expr& a, const Expr& b);
  friend Expr operator*(const Expr& a, const Expr& b);   ///< throws UserError unless one side is constant
  friend bool operator==(const Expr& a, const Expr& b);  ///< compares the structure

 private:
  struct Node;
  std::shared_ptr<const Node> node_;
  friend class ExprBuilder;
  explicit Expr(std::shared_ptr<const Node> node) : node_(std::move(node)) {}
};

Expr floor_div(const Expr& a, std::int64_t b);
Expr ceil_div(const Expr& a, std::int64_t b);
Expr modulo(const Expr& a, std::int64_t b);
Expr min(const Expr& a, const Expr& b);
Expr max(const Expr& a, const Expr& b);
Expr equal(const Expr& a, const Expr& b);
Expr less(const Expr& a, const Expr& b);
Expr less_equal(const Expr& a, const Expr& b);
Expr logical_and(const Expr& a, const Expr& b);  ///< 0 or 1; evaluates b only if a is not 0
Expr logical_or(const Expr& a, const Expr& b);   ///< 0 or 1; evaluates b only if a is 0
Expr logical_not(const Expr& a);

/// An expression whose symbols are indices into an array of values (environment). Affine expressions, also clamped
/// between constants, evaluate as a short dot product, others as a small postfix program. Evaluation neither allocates
/// nor checks for overflow.
class CompiledExpr {
 public:
  CompiledExpr() = default;
  /// `slot_of(name)`: environment index of a symbol. `tensor_of(name)`: id of a tensor that read() names.
  CompiledExpr(const Expr& expr, const std::function<int(const std::string&)>& slot_of,
               const std::function<int(const std::string&)>& tensor_of = {});
  /// Supplies read(): the element of integer tensor `tensor` at `index`.
  struct TensorReader {
    virtual ~TensorReader() = default;
    virtual std::int64_t read(int tensor, const std::int64_t* index, int rank) const = 0;
  };
  std::int64_t operator()(const std::int64_t* environment, const TensorReader* reader = nullptr) const {
    if (!program_.empty()) return run(environment, reader);
    std::int64_t value = constant_;
    for (const Term& term : terms_) value += term.coefficient * environment[term.slot];
    return std::min(std::max(value, low_), high_);
  }
  bool is_constant() const { return program_.empty() && terms_.empty(); }

 private:
  struct Term {
    int slot;
    std::int64_t coefficient;
  };
  enum class Code : std::uint8_t;
  struct Step {
    Code code;
    std::int32_t first;  ///< affine part: first term; read: tensor; skip: target
    std::int32_t count;
    std::int64_t value;
  };
  class Emitter;
  static std::int64_t* calculate(Code code, std::int64_t constant, std::int64_t* top);
  std::int64_t run(const std::int64_t* environment, const TensorReader* reader) const;

  std::int64_t constant_ = 0;
  std::int64_t low_ = std::numeric_limits<std::int64_t>::min();
  std::int64_t high_ = std::numeric_limits<std::int64_t>::max();
  std::vector<Term> terms_;    ///< terms of the affine form, or of the program's affine parts
  std::vector<Step> program_;  ///< postfix program; empty for the affine form
};

}  // namespace tilesim
