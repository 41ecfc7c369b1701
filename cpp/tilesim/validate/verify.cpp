#include "tilesim/validate/verify.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "tilesim/base/error.hpp"
#include "tilesim/kernels/kernels.hpp"
#include "tilesim/program/execute.hpp"
#include "tilesim/validate/error_bound.hpp"

namespace tilesim::validate {

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

std::size_t at(ValueId id) { return static_cast<std::size_t>(id); }

/// Values of one call of a function with their deviations, computed when asked for.
class Frame {
 public:
  struct Shared {
    const Graph& graph;
    const std::map<std::string, Array>& weights;  ///< by reference
    Numerics numerics;
    std::set<std::string> off_array;  ///< kernels' operations (joined names) without a product on an array
    CancelToken* cancel;

    /// The vector unit multiplies operands as they are.
    const Numerics& of(const Op& op) const {
      static const Numerics exact = exact_numerics();
      if (op.kind != Kind::contract && op.kind != Kind::convolution) return numerics;
      if (op.attributes.text("precision", "default") == "exact") return exact;
      const std::string wanted = "+" + op.name + "+";
      const bool off = std::any_of(off_array.begin(), off_array.end(), [&](const std::string& names) {
        return ("+" + names + "+").find(wanted) != std::string::npos;
      });
      return off ? exact : numerics;
    }
  };

  Frame(const Shared& shared, const GraphFunction& function, bool bounds = true)
      : shared_(shared),
        function_(function),
        bounds_(bounds),
        producer_(function.values.size(), -1),
        values_(function.values.size()),
        known_(function.values.size(), false) {
    for (std::size_t i = 0; i < function.ops.size(); ++i)
      for (const ValueId result : function.ops[i].results) producer_[at(result)] = static_cast<int>(i);
  }

  void set(ValueId id, Bounded value) {
    values_[at(id)] = std::move(value);
    known_[at(id)] = true;
  }

  const Bounded& value(ValueId id) {
    if (!known_[at(id)]) compute(function_.ops[static_cast<std::size_t>(producer_[at(id)])]);
    return values_[at(id)];
  }

 private:
  void compute(const Op& op) {
    if (shared_.cancel) shared_.cancel->poll();
    std::vector<Bounded> operands;
    for (const ValueId id : op.operands) operands.push_back(id == no_value ? Bounded{} : value(id));
    if (op.kind == Kind::constant) {
      const auto weight = shared_.weights.find(op.attributes.text("reference"));
      if (weight != shared_.weights.end()) return set(op.results[0], {weight->second, {}});
    }
    if (op.kind == Kind::call || op.kind == Kind::fused) return call(op, operands);
    if (op.kind == Kind::while_loop) return loop(op, std::move(operands));
    std::vector<Array> plain;
    for (const Bounded& operand : operands) plain.push_back(operand.value);
    const std::vector<Array> results = evaluate_op(shared_.graph, function_, op, plain, shared_.of(op));
    std::vector<Array> errors(results.size());
    if (bounds_) errors = error_bounds(shared_.graph, function_, op, operands, results, shared_.of(op));
    for (std::size_t i = 0; i < results.size(); ++i) set(op.results[i], {results[i], std::move(errors[i])});
  }

  void call(const Op& op, const std::vector<Bounded>& operands) {
    const GraphFunction& callee = shared_.graph.functions[static_cast<std::size_t>(op.functions[0])];
    Frame inner(shared_, callee, bounds_);
    for (std::size_t i = 0; i < operands.size(); ++i) inner.set(callee.inputs[i], operands[i]);
    for (std::size_t i = 0; i < op.results.size(); ++i) set(op.results[i], inner.value(callee.outputs[i]));
  }

  /// Deviations are carried from trip to trip.
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
      if (op.results[i] != no_value) set(op.results[i], state[i]);
  }

  const Shared& shared_;
  const GraphFunction& function_;
  bool bounds_;
  std::vector<int> producer_;
  std::vector<Bounded> values_;
  std::vector<bool> known_;
};

double distance(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  const double d = std::fabs(a - b);
  return std::isnan(d) ? infinite : d;
}

Comparison compare(const Array& tiled, const Bounded& wanted) {
  Comparison row;
  row.elements = tiled.size();
  const Array a = tiled.to(DType::f64), b = wanted.value.to(DType::f64);
  // Stored in a narrower type than the value's, both sides are rounded once more.
  const bool narrower = is_float(tiled.dtype()) && tiled.dtype() != wanted.value.dtype();
  const double u = narrower ? 2 * unit_roundoff(tiled.dtype()) : 0;
  for (std::int64_t i = 0; i < row.elements; ++i) {
    const double reference = b.as<double>()[i];
    if (std::isfinite(reference)) row.scale = std::max(row.scale, std::fabs(reference));
    const double error = distance(a.as<double>()[i], reference);
    row.largest = std::max(row.largest, error);
    if (error == 0) continue;
    double bound = wanted.error.empty() ? 0 : wanted.error.as<double>()[i];
    if (std::isfinite(reference)) bound += u * std::fabs(reference);
    const double ratio = bound > 0 ? error / bound : infinite;
    if (!(ratio > row.ratio)) continue;
    row.ratio = ratio;
    row.error = error;
    row.bound = bound;
    row.worst = i;
  }
  row.ok = row.ratio <= 1;
  return row;
}

/// The main body or one call of a function: the reference's values that have a tensor.
struct Instance {
  const GraphFunction* function = nullptr;
  std::map<std::string, ValueId> by_tensor;  ///< values by the program's tensor names
  std::map<ValueId, Array> inputs, reference;
};

bool multiplies(const program::Block& block) {
  return std::any_of(block.begin(), block.end(), [](const program::Statement& statement) {
    if (std::holds_alternative<program::MmaOp>(statement.action)) return true;
    if (const auto* loop = std::get_if<program::For>(&statement.action)) return multiplies(loop->body);
    if (const auto* scope = std::get_if<program::Scope>(&statement.action)) return multiplies(scope->body);
    if (const auto* branch = std::get_if<program::If>(&statement.action))
      return multiplies(branch->then) || multiplies(branch->otherwise);
    return false;
  });
}

void find_off_array(const program::Block& block, std::set<std::string>& names) {
  for (const program::Statement& statement : block) {
    if (const auto* loop = std::get_if<program::For>(&statement.action)) find_off_array(loop->body, names);
    const auto* scope = std::get_if<program::Scope>(&statement.action);
    if (scope && !scope->operation.empty() && !multiplies(scope->body)) names.insert(scope->operation);
    if (scope && scope->operation.empty()) find_off_array(scope->body, names);
  }
}

std::set<std::string> off_array(const program::Program& program) {
  std::set<std::string> names;
  find_off_array(program.body, names);
  for (const program::Function& function : program.functions) find_off_array(function.body, names);
  return names;
}

class Verifier {
 public:
  Verifier(const Graph& prepared, const program::Program& program, const Machine& machine,
           const std::map<std::string, Array>& inputs, CancelToken* cancel)
      : given_(inputs), shared_{prepared, weights_, machine.core.array.numerics, off_array(program), cancel} {
    for (const program::Tensor& tensor : program.tensors) {
      const auto found = inputs.find(tensor.name);
      if (tensor.role == program::Role::weight && found != inputs.end()) weights_[tensor.weight] = found->second;
      tensors_.insert(tensor.name);
    }
    const GraphFunction& entry = prepared.entry();
    Instance main{&entry, {}, {}, {}};
    for (std::size_t i = 0; i < entry.values.size(); ++i) name(main, static_cast<ValueId>(i), entry.values[i].name);
    for (const Alias& alias : entry.aliases)
      name(main, entry.outputs[static_cast<std::size_t>(alias.output)],
           entry.value(entry.inputs[static_cast<std::size_t>(alias.input)]).name);
    for (const ValueId input : entry.inputs) main.inputs[input] = given(entry.value(input).name);
    run_reference(main);
    instances_[0] = std::move(main);
  }

  void observe(program::Observed& kernel) {
    Instance& instance = kernel.call == 0 ? instances_[0] : called(kernel);
    Frame frame(shared_, *instance.function);
    for (const auto& [id, value] : instance.inputs) frame.set(id, {value, {}});
    std::set<ValueId> own;
    for (const auto& [tensor, array] : kernel.tensors)
      if (const auto found = instance.by_tensor.find(tensor); found != instance.by_tensor.end())
        own.insert(found->second);
    for (const auto& [id, value] : instance.reference)
      if (!own.count(id)) frame.set(id, {value, {}});
    for (auto& [tensor, array] : kernel.tensors) {
      const auto found = instance.by_tensor.find(tensor);
      if (found == instance.by_tensor.end() || !instance.reference.count(found->second)) continue;
      check(kernel.operation, tensor, array, frame.value(found->second));
    }
  }

  /// Outputs that no kernel was seen to store.
  void finish(const std::map<std::string, Array>& outputs) {
    const GraphFunction& entry = shared_.graph.entry();
    for (const ValueId output : entry.outputs) {
      const std::string& tensor = entry.value(output).name;
      const auto found = outputs.find(tensor);
      if (checked_.count(tensor) || found == outputs.end()) continue;
      program::Observed last{tensor, {}, 0, 0, {}, {{tensor, found->second.clone()}}};
      observe(last);
    }
  }

  std::vector<Comparison> rows() && { return std::move(rows_); }

 private:
  const Array& given(const std::string& tensor) const {
    const auto found = given_.find(tensor);
    if (found == given_.end()) throw UserError({"an input is missing", tensor, {}, {}, {}});
    return found->second;
  }

  void name(Instance& instance, ValueId id, const std::string& tensor) const {
    if (tensors_.count(tensor)) instance.by_tensor[tensor] = id;
  }

  void check(const std::string& operation, const std::string& tensor, Array& array, const Bounded& wanted) {
    if (array.shape() != wanted.value.shape()) return;
    Comparison row = compare(array, wanted);
    row.operation = operation;
    row.tensor = tensor;
    rows_.push_back(std::move(row));
    checked_.insert(tensor);
    const Array replacement = wanted.value.to(array.dtype());
    std::memcpy(array.bytes(), replacement.bytes(), static_cast<std::size_t>(array.nbytes()));
  }

  /// The instance of the call that the kernel belongs to; begun when its first kernel is seen.
  Instance& called(const program::Observed& kernel) {
    if (const auto found = instances_.find(kernel.call); found != instances_.end()) return found->second;
    const auto& functions = shared_.graph.functions;
    const auto callee = std::find_if(functions.begin(), functions.end(),
                                     [&](const GraphFunction& f) { return f.name == kernel.function; });
    require(callee != functions.end(), "verify: a kernel is in a function that the graph lacks");
    Instance instance{&*callee, {}, {}, {}};
    const std::string prefix = callee->name + ".";
    for (std::size_t i = 0; i < callee->values.size(); ++i)
      name(instance, static_cast<ValueId>(i), prefix + callee->values[i].name);
    for (std::size_t i = 0; i < callee->outputs.size(); ++i)
      name(instance, callee->outputs[i], kernel.bindings.at(prefix + "result" + std::to_string(i)));
    const Instance& caller = instances_.at(kernel.caller);
    const Op* call = call_of(caller, kernel.bindings, prefix);
    for (std::size_t i = 0; i < callee->inputs.size(); ++i) {
      const std::string& actual = kernel.bindings.at(prefix + callee->value(callee->inputs[i]).name);
      instance.inputs[callee->inputs[i]] = argument(caller, call ? call->operands[i] : no_value, actual);
    }
    run_reference(instance);
    // What earlier calls stored is not needed again, except by callers.
    if (kernel.caller == 0) std::erase_if(instances_, [](const auto& entry) { return entry.first != 0; });
    return instances_[kernel.call] = std::move(instance);
  }

  /// The operation that a kernel's call comes from; null where its first result has no tensor.
  static const Op* call_of(const Instance& caller, const std::map<std::string, std::string>& bindings,
                           const std::string& prefix) {
    const auto bound = bindings.find(prefix + "result0");
    const auto result = bound == bindings.end() ? caller.by_tensor.end() : caller.by_tensor.find(bound->second);
    if (result == caller.by_tensor.end()) return nullptr;
    for (const Op& op : caller.function->ops)
      if (op.kind == Kind::call && std::ranges::count(op.results, result->second) > 0) return &op;
    return nullptr;
  }

  /// What a call gets: by the value where it is known, since a tensor holds two of them where a state is overwritten.
  Array argument(const Instance& caller, ValueId value, const std::string& tensor) const {
    if (const auto input = caller.inputs.find(value); input != caller.inputs.end()) return input->second;
    if (value == no_value)
      if (const auto named = caller.by_tensor.find(tensor); named != caller.by_tensor.end()) value = named->second;
    const auto known = caller.reference.find(value);
    return known == caller.reference.end() ? given(tensor) : known->second;
  }

  void run_reference(Instance& instance) const {
    std::set<ValueId> wanted;
    for (const auto& [tensor, id] : instance.by_tensor) wanted.insert(id);
    Frame frame(shared_, *instance.function, false);
    for (const auto& [id, value] : instance.inputs) frame.set(id, {value, {}});
    for (const Op& op : instance.function->ops) {
      if (op.kind == Kind::constant) continue;
      for (const ValueId result : op.results)
        if (wanted.count(result)) instance.reference[result] = frame.value(result).value;
    }
  }

  const std::map<std::string, Array>& given_;
  std::map<std::string, Array> weights_;
  Frame::Shared shared_;
  std::set<std::string> tensors_, checked_;
  std::map<std::int64_t, Instance> instances_;  ///< by ordinal of the call
  std::vector<Comparison> rows_;
};

}  // namespace

std::vector<Comparison> verify(const Graph& prepared, const program::Program& program, const Machine& machine,
                               const std::map<std::string, Array>& inputs, CancelToken* cancel) {
  Verifier verifier(prepared, program, machine, inputs, cancel);
  program::ExecuteOptions options;
  options.cancel = cancel;
  options.observe = [&](program::Observed& kernel) { verifier.observe(kernel); };
  verifier.finish(program::execute(program, inputs, options));
  return std::move(verifier).rows();
}

}  // namespace tilesim::validate
