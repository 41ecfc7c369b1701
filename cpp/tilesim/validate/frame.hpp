// The reference's values of one call of a function, each with a bound on a tiled program's deviation.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tilesim/base/cancel.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/kernels/kernels.hpp"
#include "tilesim/validate/error_bound.hpp"
#include "tilesim/validate/exact_values.hpp"

namespace tilesim::validate {

/// Values of one call of a function with their deviations, computed on request.
class Frame {
 public:
  struct Shared {
    const Graph& graph;
    const std::map<std::string, Array>& weights;  ///< by reference
    Numerics numerics;
    std::set<std::string> off_array;      ///< operations of kernels without a product on an array
    std::map<std::string, DType> stored;  ///< types of the program's tensors, by name
    CancelToken* cancel;

    /// The vector unit multiplies operands without rounding.
    const Numerics& numerics_of(const Op& op) const {
      static const Numerics exact = exact_numerics();
      if (op.kind != Kind::contract && op.kind != Kind::convolution) return numerics;
      if (op.attributes.text("precision", "default") == "exact") return exact;
      return off_array.contains(op.name) ? exact : numerics;
    }
  };

  Frame(const Shared& shared, const GraphFunction& function, bool bounds = true)
      : shared_(shared),
        function_(function),
        bounds_(bounds),
        producer_(function.values.size(), -1),
        values_(function.values.size()),
        evaluated_(function.values.size(), false),
        rounds_(function.values.size()) {
    for (std::size_t i = 0; i < function.ops.size(); ++i)
      for (const ValueId result : function.ops[i].results) producer_[at(result)] = static_cast<int>(i);
  }

  void set(ValueId id, Bounded value, std::string rounds = {}) {
    values_[at(id)] = std::move(value);
    evaluated_[at(id)] = true;
    rounds_[at(id)] = std::move(rounds);
  }

  /// Sets known results of operations on the same operands; only their bounds are then computed.
  void set_results(const std::map<ValueId, Array>* results) { results_ = results; }

  const Bounded& value(ValueId id) {
    if (!evaluated_[at(id)]) compute(function_.ops[static_cast<std::size_t>(producer_[at(id)])]);
    return values_[at(id)];
  }

  /// The first rounding operation on which a value depends; empty if none rounds.
  const std::string& rounds(ValueId id) const { return rounds_[at(id)]; }

 private:
  bool has_results(const Op& op) const {
    return results_ != nullptr && std::ranges::all_of(op.results, [&](ValueId id) { return results_->count(id) > 0; });
  }

  std::vector<Array> evaluate(const Op& op, const std::vector<Bounded>& operands) const {
    std::vector<Array> arrays;
    if (has_results(op)) {
      for (const ValueId id : op.results) arrays.push_back(results_->at(id));
      return arrays;
    }
    for (const Bounded& operand : operands) arrays.push_back(operand.value);
    return evaluate_op(shared_.graph, function_, op, arrays, shared_.numerics_of(op));
  }

  /// A value that only products read may be in memory in the arrays' operand type; a product on the vector unit then
  /// reads that type too.
  Array as_stored(ValueId id, const Bounded& operand) const {
    while (producer_[at(id)] >= 0 && is_view(function_.ops[at(producer_[at(id)])]))
      id = function_.ops[at(producer_[at(id)])].operands[0];
    const std::string& name = function_.value(id).name;
    const auto found = shared_.stored.find(&function_ == &shared_.graph.entry() ? name : function_.name + "." + name);
    if (found == shared_.stored.end() || !operand.error.empty()) return operand.value;
    const DType own = operand.value.dtype(), held = found->second;
    if (!is_float(own) || !is_float(held) || is_two_of_four(held) || bits(held) >= bits(own)) return operand.value;
    return operand.value.to(held).to(own);
  }

  void compute(const Op& op) {
    if (shared_.cancel) shared_.cancel->poll();
    std::vector<Bounded> operands;
    for (const ValueId id : op.operands) operands.push_back(id == no_value ? Bounded{} : value(id));
    if (is_product(op))
      for (std::size_t i = 0; i < 2; ++i) operands[i].value = as_stored(op.operands[i], operands[i]);
    if (op.kind == Kind::constant) {
      const auto weight = shared_.weights.find(op.attributes.text("reference"));
      if (weight != shared_.weights.end()) return set(op.results[0], {weight->second, {}});
    }
    if (op.kind == Kind::call || op.kind == Kind::fused) return call(op, operands);
    if (op.kind == Kind::while_loop) return loop(op, std::move(operands));
    const std::vector<Array> results = evaluate(op, operands);
    std::vector<Array> errors(results.size());
    if (bounds_) errors = error_bounds(shared_.graph, function_, op, operands, results, shared_.numerics_of(op));
    std::string rounds;
    for (const ValueId id : op.operands)
      if (id != no_value && rounds.empty()) rounds = rounds_[at(id)];
    if (rounds.empty()) rounds = op.name;
    for (std::size_t i = 0; i < results.size(); ++i) {
      const bool deviates = !errors[i].empty();
      set(op.results[i], {results[i], std::move(errors[i])}, deviates ? rounds : "");
    }
  }

  void call(const Op& op, const std::vector<Bounded>& operands) {
    const GraphFunction& callee = shared_.graph.functions[static_cast<std::size_t>(op.functions[0])];
    Frame inner(shared_, callee, bounds_);
    for (std::size_t i = 0; i < operands.size(); ++i) inner.set(callee.inputs[i], operands[i]);
    for (std::size_t i = 0; i < op.results.size(); ++i) {
      const Bounded& value = inner.value(callee.outputs[i]);
      set(op.results[i], value, value.error.empty() ? "" : op.name);
    }
  }

  /// Carries deviations from trip to trip.
  void loop(const Op& op, std::vector<Bounded> state) {
    const auto run = [&](std::size_t which) {
      const GraphFunction& callee = shared_.graph.functions[static_cast<std::size_t>(op.functions[which])];
      Frame inner(shared_, callee, bounds_ && which == 1);
      for (std::size_t i = 0; i < state.size(); ++i) inner.set(callee.inputs[i], state[i]);
      std::vector<Bounded> outputs;
      for (const ValueId output : callee.outputs) outputs.push_back(inner.value(output));
      return outputs;
    };
    while (run(0)[0].value.int_at(0) != 0) {
      if (shared_.cancel) shared_.cancel->poll();
      state = run(1);
    }
    for (std::size_t i = 0; i < op.results.size(); ++i)
      if (op.results[i] != no_value) set(op.results[i], state[i], state[i].error.empty() ? "" : op.name);
  }

  const Shared& shared_;
  const GraphFunction& function_;
  bool bounds_;
  std::vector<int> producer_;
  std::vector<Bounded> values_;
  std::vector<bool> evaluated_;
  std::vector<std::string> rounds_;
  const std::map<ValueId, Array>* results_ = nullptr;
};

}  // namespace tilesim::validate
