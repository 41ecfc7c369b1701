#include "tilesim/validate/verify.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "tilesim/base/error.hpp"
#include "tilesim/compile/prepare/boundary.hpp"
#include "tilesim/kernels/kernels.hpp"
#include "tilesim/program/run/execute.hpp"
#include "tilesim/program/visit.hpp"
#include "tilesim/validate/drawn_inputs.hpp"
#include "tilesim/validate/exact_values.hpp"
#include "tilesim/validate/frame.hpp"
#include "tilesim/validate/lowered.hpp"
#include "tilesim/validate/rounding.hpp"

namespace tilesim::validate {

namespace {

Comparison compare(const Array& tiled, const Bounded& wanted) {
  Comparison row;
  row.elements = tiled.size();
  const Array a = tiled.to(DType::f64), b = wanted.value.to(DType::f64);
  // If the tensor has a narrower type than the value, both sides are rounded once more.
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
  std::map<ValueId, std::string> names;  ///< of tensors
  std::int64_t ordinal = 0, caller = 0;
  const Op* call = nullptr;  ///< in the caller; null if unknown
};

/// Data that the second run takes from the first, and the patterns by which it draws the rest.
struct Exact {
  Patterns patterns;
  std::map<std::pair<std::int64_t, ValueId>, Array> kept;  ///< by call and value
  std::set<std::pair<std::int64_t, ValueId>> stored;       ///< values that kernels store; all others follow from them
};

std::map<std::string, DType> types_of(const program::Program& program) {
  std::map<std::string, DType> types;
  for (const program::Tensor& tensor : program.tensors) types[tensor.name] = tensor.dtype;
  return types;
}

std::set<std::string> names_of(const program::Program& program) {
  std::set<std::string> names;
  for (const program::Tensor& tensor : program.tensors) names.insert(tensor.name);
  return names;
}

class Verifier {
 public:
  /// `exact`: data that the first run leaves for the second; `second`: whether this is the second run.
  Verifier(const Graph& prepared, const program::Program& program, const Machine& machine,
           const std::map<std::string, Array>& inputs, const PlainWeights& plain, Exact* exact, bool second,
           CancelToken* cancel)
      : given_(inputs),
        exact_(exact),
        second_(second),
        shared_{prepared, weights_, machine.core.array.numerics, off_array(program), types_of(program), cancel},
        storing_(storing_kernels(program)) {
    for (const program::Tensor& tensor : program.tensors) {
      const auto found = inputs.find(tensor.name);
      if (tensor.role == program::Role::weight && found != inputs.end())
        weights_[tensor.weight] = plain.unpacked(tensor.weight, found->second);
      tensors_.insert(tensor.name);
    }
    const GraphFunction& entry = prepared.entry();
    Instance main;
    main.function = &entry;
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
    if (!second_) frame.set_results(&instance.reference);
    for (const auto& [id, value] : instance.inputs) frame.set(id, {value, {}});
    std::set<ValueId> own;
    for (const auto& [tensor, array] : kernel.tensors)
      if (const auto found = instance.by_tensor.find(tensor); found != instance.by_tensor.end())
        own.insert(found->second);
    const std::set<ValueId> computed = computed_again(instance, kernel);
    // A part of a concat cannot be replaced by drawn values, so the kernel's other results are not drawn either.
    const bool joins = std::ranges::any_of(kernel.tensors, [&](const auto& stored) {
      const auto found = instance.by_tensor.find(stored.first);
      return found != instance.by_tensor.end() && in_parts(instance, kernel, stored.first, found->second);
    });
    for (const auto& [id, value] : instance.reference)
      if (!own.count(id) && !computed.count(id)) frame.set(id, {value, {}});
    for (auto& [tensor, array] : kernel.tensors) {
      const auto found = instance.by_tensor.find(tensor);
      if (found == instance.by_tensor.end() || !instance.reference.count(found->second)) continue;
      std::vector<std::string> operations = kernel.operation;
      const bool parts = in_parts(instance, kernel, tensor, found->second);
      if (parts && !all_parts(kernel, tensor, operations)) continue;
      const Bounded& wanted = frame.value(found->second);
      if (!check(join(operations, "+"), tensor, array, wanted)) continue;
      rows_.back().rounds = frame.rounds(found->second);
      if (exact_ && !second_ && !joins) mark_stored(tensor);
      // Later kernels read the reference's values.
      const Array next = instance.reference.at(found->second).to(array.dtype());
      std::memcpy(array.bytes(), next.bytes(), static_cast<std::size_t>(array.nbytes()));
    }
  }

  /// Compares outputs that no observed kernel stored.
  void finish(const std::map<std::string, Array>& outputs) {
    const GraphFunction& entry = shared_.graph.entry();
    for (const ValueId output : entry.outputs) {
      const std::string& tensor = entry.value(output).name;
      const auto found = outputs.find(tensor);
      if (checked_.count(tensor) || found == outputs.end()) continue;
      program::Observed last{{tensor}, {}, 0, {}, {}, {{tensor, found->second.clone()}}, {}};
      last.loaded = tensors_;  // the output is a view of one of these tensors, so that no kernel has its name
      observe(last);
    }
  }

  std::vector<Comparison> rows() && { return std::move(rows_); }

 private:
  /// Number of kernels of a function that store to an actual tensor.
  std::int64_t storing(const program::Observed& kernel, const std::string& tensor) const {
    const auto count = [&](const std::string& name) {
      const auto found = storing_.find({kernel.function, name});
      return found == storing_.end() ? 0 : found->second;
    };
    std::int64_t kernels = kernel.bindings.contains(tensor) ? 0 : count(tensor);
    for (const auto& [formal, actual] : kernel.bindings)
      if (actual == tensor) kernels += count(formal);
    return kernels;
  }

  /// Whether separate kernels store the parts of a concat to the tensor of its result.
  bool in_parts(const Instance& instance, const program::Observed& kernel, const std::string& tensor,
                ValueId value) const {
    for (const Op& op : instance.function->ops)
      if (std::ranges::count(op.results, value) > 0) {
        if (op.kind == Kind::concat) return storing(kernel, tensor) > 1;
        return is_view(op) && in_parts(instance, kernel, tensor, op.operands[0]);
      }
    return false;
  }

  /// Whether the kernel is the last that stores a part; `operations` then has those of all parts.
  bool all_parts(const program::Observed& kernel, const std::string& tensor, std::vector<std::string>& operations) {
    std::vector<std::vector<std::string>>& seen = parts_[{kernel.call, tensor}];
    seen.push_back(kernel.operation);
    if (std::ssize(seen) < storing(kernel, tensor)) return false;
    operations.clear();
    for (const auto& part : seen) operations.insert(operations.end(), part.begin(), part.end());
    seen.clear();
    return true;
  }

  const Array& given(const std::string& tensor) const {
    const auto found = given_.find(tensor);
    if (found == given_.end()) throw UserError({"an input is missing", tensor, {}, {}, {}});
    return found->second;
  }

  void name(Instance& instance, ValueId id, const std::string& tensor) const {
    if (!tensors_.count(tensor)) return;
    instance.by_tensor[tensor] = id;
    instance.names[id] = tensor;
  }

  /// Values that a kernel computes although another has stored them.
  static std::set<ValueId> computed_again(const Instance& instance, const program::Observed& kernel) {
    const std::set<std::string> members(kernel.operation.begin(), kernel.operation.end());
    std::set<ValueId> values;
    for (const Op& op : instance.function->ops)
      if (members.contains(op.name)) values.insert(op.results.begin(), op.results.end());
    for (const std::string& tensor : kernel.loaded)
      if (const auto read = instance.by_tensor.find(tensor); read != instance.by_tensor.end())
        values.erase(read->second);
    return values;
  }

  /// Marks a tensor as stored, in the current call and in its callers.
  void mark_stored(const std::string& tensor) {
    for (const auto& [ordinal, instance] : instances_)
      if (const auto own = instance.by_tensor.find(tensor); own != instance.by_tensor.end())
        exact_->stored.insert({ordinal, own->second});
  }

  bool check(const std::string& operation, const std::string& tensor, Array& array, const Bounded& wanted) {
    const bool fits = array.size() == wanted.value.size();
    Comparison row = fits ? compare(array, wanted) : Comparison{};
    if (!fits) row.error = row.largest = row.ratio = infinite;
    row.ok &= fits;
    row.operation = operation;
    row.tensor = tensor;
    rows_.push_back(std::move(row));
    checked_.insert(tensor);
    return fits;
  }

  /// The instance of the call to which the kernel belongs. Instances of this call and its callers begin with the first
  /// kernel seen in any of them, since a caller may have no kernels.
  Instance& called(const program::Observed& kernel) {
    std::int64_t caller = 0;
    for (const auto& [ordinal, function] : kernel.calls) {
      if (!instances_.count(ordinal)) begin(kernel, ordinal, function, caller);
      caller = ordinal;
    }
    return instances_.at(kernel.call);
  }

  void begin(const program::Observed& kernel, std::int64_t ordinal, const std::string& function, std::int64_t from) {
    const GraphFunction* callee = lower::called(shared_.graph, function);
    require(callee != nullptr, "verify: a kernel is in a function that is missing in the graph");
    Instance instance;
    instance.function = callee;
    instance.ordinal = ordinal;
    instance.caller = from;
    const std::string prefix = function + ".";
    for (std::size_t i = 0; i < callee->values.size(); ++i)
      name(instance, static_cast<ValueId>(i), prefix + callee->values[i].name);
    for (std::size_t i = 0; i < callee->outputs.size(); ++i)
      name(instance, callee->outputs[i], kernel.bindings.at(prefix + "result" + std::to_string(i)));
    const Instance& caller = instances_.at(from);
    const Op* call = instance.call = call_of(caller, kernel.bindings, prefix);
    for (std::size_t i = 0; i < callee->inputs.size(); ++i) {
      const std::string& actual = kernel.bindings.at(prefix + callee->value(callee->inputs[i]).name);
      instance.inputs[callee->inputs[i]] = argument(caller, call ? call->operands[i] : no_value, actual);
    }
    run_reference(instance);
    // Values of earlier calls are not needed again, except by callers.
    if (from == 0) std::erase_if(instances_, [](const auto& entry) { return entry.first != 0; });
    Instance& stored = instances_[ordinal] = std::move(instance);
    if (second_) publish(stored);
  }

  /// A call's result is one tensor in callee and caller: the caller takes the values drawn in the call.
  void publish(const Instance& instance) {
    const auto caller = instances_.find(instance.caller);
    if (instance.call == nullptr || caller == instances_.end()) return;
    bool given_on = false;
    for (std::size_t i = 0; i < instance.call->results.size(); ++i) {
      const auto value = instance.reference.find(instance.function->outputs[i]);
      const ValueId result = instance.call->results[i];
      if (result == no_value || value == instance.reference.end()) continue;
      caller->second.reference[result] = value->second;
      given_on |= std::ranges::count(caller->second.function->outputs, result) > 0;
    }
    if (given_on && caller->first != 0) publish(caller->second);
  }

  /// The operation for which a kernel's call was made; null if its first result has no tensor.
  static const Op* call_of(const Instance& caller, const std::map<std::string, std::string>& bindings,
                           const std::string& prefix) {
    const auto bound = bindings.find(prefix + "result0");
    const auto result = bound == bindings.end() ? caller.by_tensor.end() : caller.by_tensor.find(bound->second);
    if (result == caller.by_tensor.end()) return nullptr;
    for (const Op& op : caller.function->ops)
      if (op.kind == Kind::call && std::ranges::count(op.results, result->second) > 0) return &op;
    return nullptr;
  }

  /// Argument of a call, by its value if known, because the tensor of an overwritten state holds two values in turn.
  Array argument(const Instance& caller, ValueId value, const std::string& tensor) const {
    if (const auto input = caller.inputs.find(value); input != caller.inputs.end()) return input->second;
    if (value == no_value)
      if (const auto named = caller.by_tensor.find(tensor); named != caller.by_tensor.end()) value = named->second;
    const auto known = caller.reference.find(value);
    return known == caller.reference.end() ? given(tensor) : known->second;
  }

  /// Marks results that change with drawn values unless a kernel stores them: bits or elements of other values.
  void mark_following(const Op& op, std::size_t function, std::vector<bool>& following) const {
    if (!second_ || !op.functions.empty()) return;
    const std::vector<Pattern>& own = exact_->patterns.values[function];
    const bool follows = std::ranges::any_of(op.operands, [&](ValueId id) {
      return id != no_value && (own[at(id)].draw != Draw::keep || following[at(id)]);
    });
    for (const ValueId result : op.results)
      if (result != no_value) following[at(result)] = follows;
  }

  /// Whether a result is an output copied from a tensor that later operations read: both then need equal elements.
  static bool repeats(const Op& op, const Instance& instance) {
    return std::ranges::count(instance.function->outputs, op.results[0]) > 0 && is_view(op) &&
           lies_in_tensor(op.operands[0], instance);
  }

  static bool lies_in_tensor(ValueId id, const Instance& instance) {
    if (instance.inputs.count(id) > 0 || instance.reference.count(id) > 0) return true;
    for (const Op& op : instance.function->ops)
      if (std::ranges::count(op.results, id) > 0)
        return op.kind == Kind::constant || (is_view(op) && lies_in_tensor(op.operands[0], instance));
    return false;
  }

  void run_reference(Instance& instance) const {
    std::set<ValueId> wanted;
    for (const auto& [tensor, id] : instance.by_tensor) wanted.insert(id);
    const auto function = static_cast<std::size_t>(instance.function - shared_.graph.functions.data());
    const bool frozen = !exact_ || exact_->patterns.frozen[function];
    std::vector<bool> following(instance.function->values.size(), false);
    Frame frame(shared_, *instance.function, false);
    for (const auto& [id, value] : instance.inputs) frame.set(id, {value, {}});
    for (const Op& op : instance.function->ops) {
      if (op.kind == Kind::constant) continue;
      mark_following(op, function, following);
      for (const ValueId result : op.results) {
        if (!wanted.count(result)) continue;
        const Pattern pattern = frozen ? Pattern{} : exact_->patterns.values[function][at(result)];
        const TensorType& type = instance.function->value(result).type;
        const bool stored = second_ && exact_->stored.contains({instance.ordinal, result}) && !repeats(op, instance);
        if (stored) following[at(result)] = false;
        if (stored && pattern.draw != Draw::keep) {
          instance.reference[result] = drawn(pattern, type.dtype, type.shape, instance.names.at(result));
          frame.set(result, {instance.reference[result], {}});
        } else if (second_ && !frozen && pattern.draw == Draw::keep && !following[at(result)]) {
          instance.reference[result] = exact_->kept.at({instance.ordinal, result});
          frame.set(result, {instance.reference[result], {}});
        } else {
          instance.reference[result] = frame.value(result).value;
          if (!frozen && pattern.draw == Draw::keep)
            exact_->kept[{instance.ordinal, result}] = instance.reference[result];
        }
      }
    }
  }

  const std::map<std::string, Array>& given_;
  Exact* exact_;
  bool second_;
  std::map<std::string, Array> weights_;
  Frame::Shared shared_;
  Storing storing_;
  std::map<std::pair<std::int64_t, std::string>, std::vector<std::vector<std::string>>> parts_;  ///< seen, by call
  std::set<std::string> tensors_, checked_;
  std::map<std::int64_t, Instance> instances_;  ///< by ordinal of the call
  std::vector<Comparison> rows_;
};

std::vector<Comparison> compared(const program::Program& program, const std::map<std::string, Array>& inputs,
                                 Verifier verifier, CancelToken* cancel, TileExecutor* executor) {
  program::ExecuteOptions options;
  options.cancel = cancel, options.executor = executor;
  options.observe = [&](program::Observed& kernel) { verifier.observe(kernel); };
  verifier.finish(program::execute(program, inputs, options));
  return std::move(verifier).rows();
}

}  // namespace

std::vector<Comparison> verify(const Graph& lowered, const program::Program& program, const Machine& machine,
                               const std::map<std::string, Array>& inputs, bool exact, CancelToken* cancel,
                               TileExecutor* executor) {
  const PlainWeights plain(lowered);
  const Graph& prepared = plain.graph();
  Exact second;
  if (exact) second.patterns = patterns_of(prepared, names_of(program));
  Exact* const kept = exact ? &second : nullptr;
  std::vector<Comparison> rows = compared(
      program, inputs, Verifier(prepared, program, machine, inputs, plain, kept, false, cancel), cancel, executor);
  for (Comparison& row : rows) row.rounds.clear();
  if (!exact) return rows;
  const std::map<std::string, Array> values = drawn_inputs(prepared, program, second.patterns, inputs);
  const std::vector<Comparison> again = compared(
      program, values, Verifier(prepared, program, machine, values, plain, kept, true, cancel), cancel, executor);
  // Integers are the same in both runs, so the same kernels run.
  require(again.size() == rows.size(), "verify: the second run has other kernels than the first");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].ok &= again[i].ok;
    rows[i].exact = again[i].rounds.empty();
    rows[i].rounds = again[i].rounds;
    rows[i].integer_error = again[i].error;
    rows[i].integer_ratio = again[i].ratio;
  }
  return rows;
}

}  // namespace tilesim::validate
