// Activations that are spelled out: functions of one tensor, and SiLU times a gate in any association.
#include <algorithm>
#include <set>

#include "tilesim/graph/kind.hpp"
#include "tilesim/graph/recognition.hpp"

namespace tilesim::recognition {

namespace {

/// A function that a chain of elementwise operations may be, and what it cannot do without.
struct Activation {
  Function function;
  std::vector<Function> parts;  ///< one of them occurs
};

const std::vector<Activation>& activations() {
  using enum Function;
  static const std::vector<Activation> table{
      {gelu_erf, {erf, erfc}}, {gelu_tanh, {tanh, sigmoid}}, {silu, {sigmoid, exp, tanh}},
      {sigmoid, {exp, tanh}},  {softplus, {log1p, log}},     {relu, {maximum, select}},
  };
  return table;
}

/// Values of which the root is a function with numbers alone, nearest first.
class Cuts {
 public:
  Cuts(const Reader& reader, ValueId root) : reader_(reader) { open(root); }

  bool single() const { return frontier_.size() == 1; }
  /// Opens operations until one value is left; false where there is no further one.
  bool next() {
    constexpr int limit = 24;
    do {
      if (frontier_.empty() || opened_ >= limit) return false;
      const auto last = std::prev(frontier_.end());  // the latest operation
      const Op* op = last->first;
      if (op == nullptr || (op->kind != Kind::elementwise && op->kind != Kind::convert)) return false;
      const ValueId value = last->second;
      frontier_.erase(last);
      open(value);
    } while (frontier_.size() != 1);
    return true;
  }
  ValueId value() const { return frontier_.begin()->second; }
  bool has(const std::vector<Function>& functions) const {
    return std::ranges::any_of(functions, [&](Function f) { return std::ranges::count(seen_, f) > 0; });
  }
  int opened() const { return opened_; }

 private:
  void open(ValueId value) {
    ++opened_;
    if (const auto function = reader_.function_of(value)) seen_.push_back(*function);
    for (const ValueId id : reader_.op(value)->operands)
      if (id != no_value && !reader_.number(id)) frontier_.emplace(reader_.op(id), id);
  }

  const Reader& reader_;
  std::set<std::pair<const Op*, ValueId>> frontier_;  ///< in the order of the operations
  std::vector<Function> seen_;
  int opened_ = 0;
};

}  // namespace

std::vector<Candidate> match_activation(const Reader& reader, const Op& op) {
  std::vector<Candidate> found;
  const ValueId root = op.results.empty() ? no_value : op.results[0];
  if (op.kind != Kind::elementwise || !is_float(reader.type(root).dtype)) return found;
  const DType dtype = reader.type(root).dtype;
  Cuts cuts(reader, root);
  for (bool more = cuts.single() || cuts.next(); more; more = cuts.next()) {
    const ValueId x = cuts.value();
    if (reader.shape(x) != reader.shape(root) || !is_float(reader.type(x).dtype)) continue;
    for (const Activation& activation : activations()) {
      const Function function = activation.function;
      if (!cuts.has(activation.parts)) continue;
      Candidate candidate;
      candidate.root = root;
      candidate.leaves = {x};
      candidate.after = std::string(info(function).name);
      candidate.build = [function, dtype](Builder& builder, const Values& leaves) {
        const ValueId y = builder.elementwise(function, leaves);
        const bool wide = builder.type(leaves[0]).dtype == DType::f64;
        return wide ? y : builder.convert(y, dtype);
      };
      found.push_back(std::move(candidate));
    }
  }
  return found;
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
    if (std::ranges::count(factors, x) != 1) continue;
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
