// Recognises activations in primitive operations: functions of one tensor, and SiLU times a gate in any association.
#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <set>

#include "tilesim/graph/kind.hpp"
#include "tilesim/graph/patterns/formula.hpp"
#include "tilesim/graph/patterns/recognition.hpp"

namespace tilesim::recognition {

namespace {

/// One form in which a function of one variable is written.
struct Spelling {
  Function function;
  Formula formula;
};

using enum Function;

Formula number(double value) { return Formula::number(value); }
Formula minus(const Formula& x) { return number(-1) * x; }
Formula one_over(const Formula& x) { return Formula::apply(reciprocal, {x}); }
Formula of(Function function, const Formula& x) { return Formula::apply(function, {x}); }
Formula chosen(const Formula& condition, const Formula& yes, const Formula& no) {
  return Formula::apply(select, {condition, yes, no});
}

/// The logistic function of a formula, in forms that never overflow to NaN and that keep NaN.
std::vector<Formula> logistic(const Formula& x) {
  const Formula zero = number(0), one = number(1), rising = of(exp, x), falling = of(exp, minus(x));
  const Formula small = of(exp, minus(of(abs, x)));
  const auto share = [&](const Formula& part) { return part * one_over(one + part); };
  const Formula positive = Formula::apply(greater_equal, {x, zero}), negative = Formula::apply(less, {x, zero});
  return {of(sigmoid, x),
          one_over(one + falling),
          number(0.5) * of(tanh, number(0.5) * x) + number(0.5),
          chosen(positive, one_over(one + falling), share(rising)),
          chosen(negative, share(rising), one_over(one + falling)),
          chosen(positive, one_over(one + small), share(small)),
          chosen(negative, share(small), one_over(one + small))};
}

/// log(1 + exp(x)) in forms that do not overflow; the plain form is infinite once exp(x) overflows.
std::vector<Formula> soft_plus(const Formula& x) {
  const Formula small = of(exp, minus(of(abs, x))), positive = Formula::apply(maximum, {x, number(0)});
  constexpr double linear = 20;  // from here on x itself, in f32 (PyTorch)
  std::vector<Formula> forms;
  for (const Formula& sum : {positive + of(log1p, small), positive + of(log, number(1) + small)}) {
    forms.push_back(sum);
    forms.push_back(chosen(of(is_nan, x), x, sum));  // jnp.logaddexp(x, 0)
  }
  const Formula plain = of(log1p, of(exp, x));
  forms.push_back(chosen(Formula::apply(greater, {x, number(linear)}), x, plain));
  forms.push_back(chosen(Formula::apply(less_equal, {x, number(linear)}), plain, x));
  return forms;
}

const std::vector<Spelling>& spellings() {
  static const std::vector<Spelling> table = [] {
    const Formula x = Formula::variable(), half = number(0.5) * x;
    const double root = 1 / std::numbers::sqrt2;
    const Formula cubic =
        number(std::sqrt(2 / std::numbers::pi)) * (x + number(0.044715) * x * x * x);  // Hendrycks and Gimpel, 2016
    std::vector<Spelling> made{{relu, Formula::apply(maximum, {x, number(0)})},
                               {gelu_erf, half + half * of(erf, number(root) * x)},
                               {gelu_erf, half * of(erfc, number(-root) * x)},
                               {gelu_tanh, half + half * of(tanh, cubic)}};
    for (const Formula& form : soft_plus(x)) made.push_back({softplus, form});
    for (const Formula& form : logistic(x)) made.push_back({sigmoid, form});
    for (const Formula& form : logistic(x)) made.push_back({silu, x * form});
    for (const Formula& form : logistic(number(2) * cubic)) made.push_back({gelu_tanh, x * form});
    return made;
  }();
  return table;
}

/// Largest number of occurrences of a function in any form, unlimited for arithmetic; empty if no form has it.
std::optional<int> most(Function function) {
  switch (function) {
    case identity:
    case negate:
    case add:
    case subtract:
    case multiply:
    case divide:
    case reciprocal:
    case power:
      return std::nullopt;
    case exp:
      return 3;
    case tanh:
    case erf:
    case erfc:
    case sigmoid:
    case log:
    case log1p:
    case abs:
    case maximum:
    case relu:
    case clamp:
    case select:
    case less:
    case less_equal:
    case greater:
    case greater_equal:
    case not_equal:
    case is_nan:
      return 1;
    default:
      return 0;
  }
}

/// Values from which the root is a function of one variable, nearest first.
class Cuts {
 public:
  Cuts(const Reader& reader, ValueId root) : reader_(reader), root_(root) { open(root); }

  bool single() const { return frontier_.size() == 1; }
  /// Expands operations until the root depends on one value; returns false after the last such value.
  bool next() {
    constexpr int limit = 24;
    do {
      if (frontier_.empty() || opened_ >= limit || hopeless_) return false;
      const auto last = std::prev(frontier_.end());  // the latest operation
      const Op* op = reader_.op(last->second);
      if (op == nullptr || (op->kind != Kind::elementwise && op->kind != Kind::convert)) return false;
      const ValueId value = last->second;
      frontier_.erase(last);
      open(value);
    } while (frontier_.size() != 1);
    return !hopeless_;
  }
  ValueId value() const { return frontier_.begin()->second; }
  /// Whether some form may contain these functions.
  bool promising() const { return !hopeless_ && !counts_.empty(); }
  /// The root as a formula of the value.
  Formula formula() const {
    std::map<ValueId, Formula> known{{value(), Formula::variable()}};
    return formula(root_, known);
  }

 private:
  void open(ValueId value) {
    ++opened_;
    if (const auto function = reader_.function_of(value))
      if (const auto limit = most(*function)) hopeless_ = ++counts_[*function] > *limit || hopeless_;
    const Op& op = *reader_.op(value);
    if (op.kind == Kind::convert) {
      const DType from = reader_.type(op.operands[0]).dtype, to = reader_.type(value).dtype;
      hopeless_ = hopeless_ || !is_float(from) || !is_float(to);
    }
    for (const ValueId id : op.operands)
      if (id != no_value && !reader_.number(id)) frontier_.emplace(reader_.order(id), id);
  }
  Formula formula(ValueId value, std::map<ValueId, Formula>& known) const {
    if (const auto found = known.find(value); found != known.end()) return found->second;
    if (const auto own = reader_.number(value)) return Formula::number(*own, reader_.rounding(value));
    const Op& op = *reader_.op(value);
    std::vector<Formula> operands;
    for (const ValueId id : op.operands) operands.push_back(formula(id, known));
    const Function function = op.kind == Kind::convert ? identity : *reader_.function_of(value);
    return known.emplace(value, Formula::apply(function, operands)).first->second;
  }

  const Reader& reader_;
  ValueId root_;
  std::set<std::pair<std::int64_t, ValueId>> frontier_;  ///< in the order of the operations
  std::map<Function, int> counts_;
  bool hopeless_ = false;
  int opened_ = 0;
};

Candidate activation(const Reader& reader, ValueId root, ValueId x, Function function) {
  const DType dtype = reader.type(root).dtype;
  Candidate candidate;
  candidate.root = root;
  candidate.leaves = {x};
  candidate.after = std::string(info(function).name);
  candidate.build = [function, dtype](Builder& builder, const Values& leaves) {
    const ValueId y = builder.elementwise(function, leaves);
    const bool wide = builder.type(leaves[0]).dtype == DType::f64;
    return wide ? y : builder.convert(y, dtype);
  };
  return candidate;
}

}  // namespace

std::vector<Candidate> match_activation(const Reader& reader, const Op& op) {
  const ValueId root = op.results.empty() ? no_value : op.results[0];
  if (op.kind != Kind::elementwise || !is_float(reader.type(root).dtype)) return {};
  Cuts cuts(reader, root);
  for (bool more = cuts.single() || cuts.next(); more; more = cuts.next()) {
    const ValueId x = cuts.value();
    if (!cuts.promising() || reader.shape(x) != reader.shape(root) || !is_float(reader.type(x).dtype)) continue;
    const Formula formula = cuts.formula();
    for (const Spelling& spelling : spellings())
      if (reader.function_of(root) != spelling.function && formula.same(spelling.formula))
        return {activation(reader, root, x, spelling.function)};
  }
  return {};
}

std::vector<std::string> spelled_functions() {
  std::vector<std::string> names;
  for (const Spelling& spelling : spellings()) {
    const std::string name(info(spelling.function).name);
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return names;
}

namespace {

void factors_of(const Reader& reader, ValueId value, Values& factors) {
  const Op* op = reader.elementwise(value, Function::multiply);
  if (op == nullptr || factors.size() > 6) {
    factors.push_back(value);
    return;
  }
  for (const ValueId id : op->operands) factors_of(reader, id, factors);
}

}  // namespace

std::vector<Candidate> match_gate(const Reader& reader, const Op& op) {
  const ValueId root = op.results.empty() ? no_value : op.results[0];
  if (root == no_value || reader.elementwise(root, Function::multiply) == nullptr) return {};
  Values factors;
  factors_of(reader, root, factors);
  if (factors.size() < 3) return {};
  for (const ValueId gate : factors) {
    const Op* sigmoid = reader.elementwise(gate, Function::sigmoid);
    if (sigmoid == nullptr) continue;
    const ValueId x = sigmoid->operands[0];
    if (std::ranges::count(factors, x) != 1 || std::ranges::count(factors, gate) != 1) continue;
    Candidate candidate;
    candidate.root = root;
    candidate.leaves = {x};
    for (const ValueId factor : factors)
      if (factor != x && factor != gate) candidate.leaves.push_back(factor);
    candidate.after = "silu, multiply";
    candidate.build = [](Builder& builder, const Values& leaves) {
      ValueId y = builder.elementwise(Function::silu, {leaves[0]});
      for (std::size_t i = 1; i < leaves.size(); ++i) y = builder.elementwise(Function::multiply, {y, leaves[i]});
      return y;
    };
    return {candidate};
  }
  return {};
}

}  // namespace tilesim::recognition
