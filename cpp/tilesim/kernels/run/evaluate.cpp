// Walks functions, calls and fused nodes; the table of kernels.
#include <algorithm>
#include <set>

#include "tilesim/base/error.hpp"
#include "tilesim/base/interrupt.hpp"
#include "tilesim/base/no_memory.hpp"
#include "tilesim/kernels/run/running.hpp"

namespace tilesim {
namespace kernels {
namespace {

using Kernel = Results (*)(const Call&);

Results copy(const Call& call) { return {call.operand(0)}; }

Results constant(const Call& call) {
  const std::string& reference = call.attributes().text("reference");
  const auto weight = call.graph.weights.find(reference);
  if (weight == call.graph.weights.end()) call.fail("The graph has no weight of this name.", reference);
  return {weight->second.load(reference)};
}

/// Null for call and fused, which run a function.
Kernel kernel_of(Kind kind) {
  switch (kind) {
    case Kind::contract:
      return contract;
    case Kind::convolution:
      return convolution;
    case Kind::elementwise:
      return elementwise;
    case Kind::convert:
      return convert;
    case Kind::bitcast:
      return bitcast;
    case Kind::reduce:
      return reduce;
    case Kind::cumulative:
      return cumulative;
    case Kind::window_reduce:
      return window_reduce;
    case Kind::gather:
      return gather;
    case Kind::embedding:
      return embedding;
    case Kind::dynamic_slice:
      return dynamic_slice;
    case Kind::dynamic_update:
      return dynamic_update;
    case Kind::reshape:
      return reshape;
    case Kind::transpose:
      return transpose;
    case Kind::broadcast:
      return broadcast;
    case Kind::slice:
      return slice;
    case Kind::reverse:
      return reverse;
    case Kind::pad:
      return pad;
    case Kind::concat:
      return concat;
    case Kind::copy:
      return copy;
    case Kind::iota:
      return iota;
    case Kind::constant:
      return constant;
    case Kind::softmax:
    case Kind::log_softmax:
      return softmax;
    case Kind::normalize:
      return normalize;
    case Kind::batch_norm:
      return batch_norm;
    case Kind::attention:
      return attention;
    case Kind::scatter:
      return scatter;
    case Kind::window_scatter:
      return window_scatter;
    case Kind::sort:
      return sort;
    case Kind::rotary:
      return rotary;
    case Kind::ragged_contract:
      return ragged_contract;
    case Kind::top_k:
      return top_k;
    case Kind::while_loop:
      return while_loop;
    case Kind::branch:
      return branch;
    case Kind::linear_solve:
      return linear_solve;
    case Kind::fft:
      return fft;
    case Kind::opaque:
      return opaque;
    case Kind::all_reduce:
    case Kind::all_gather:
    case Kind::reduce_scatter:
    case Kind::all_to_all:
    case Kind::permute_devices:
    case Kind::broadcast_devices:
    case Kind::device_index:
      return collective;
    case Kind::call:
    case Kind::fused:
      return nullptr;
  }
  throw InternalError("kernel_of: unknown kind");
}

}  // namespace

std::string place_of(const GraphFunction& function, const Op& op) {
  std::string place = "function \"" + function.name + "\", operation \"" + op.name + "\"";
  if (!op.source.empty()) place += " (" + op.source + ")";
  return place;
}

namespace {

Results run_function(const Graph& graph, const GraphFunction& function, const std::vector<Array>& inputs,
                     const EvaluateOptions& options);

/// A call or fused node. Operations inside a fused node are not observed: the node is one operation.
Results run_callee(const Graph& graph, const Op& op, const std::vector<Array>& operands,
                   const EvaluateOptions& options) {
  const GraphFunction& callee = graph.functions[static_cast<std::size_t>(op.functions[0])];
  if (op.kind == Kind::call || !options.observe) return run_function(graph, callee, operands, options);
  EvaluateOptions silent = options;
  silent.observe = nullptr;
  return run_function(graph, callee, operands, silent);
}

}  // namespace

Results run_op(const Graph& graph, const GraphFunction& function, const Op& op, const std::vector<Array>& operands,
               const EvaluateOptions& options) {
  const Kernel kernel = kernel_of(op.kind);
  if (kernel == nullptr) return run_callee(graph, op, operands, options);
  Results results = kernel({graph, function, op, operands, options});
  for (std::size_t i = 0; i < results.size(); ++i) {
    const TensorType& type = function.value(op.results[i]).type;
    require(results[i].dtype() == type.dtype && results[i].shape() == type.shape,
            "evaluate_op: result type differs from the graph's");
  }
  return results;
}

std::vector<std::vector<ValueId>> last_uses(const GraphFunction& function) {
  std::vector<bool> live(function.values.size(), false);
  for (const ValueId output : function.outputs) live[static_cast<std::size_t>(output)] = true;
  std::vector<std::vector<ValueId>> dying(function.ops.size());
  for (std::size_t i = function.ops.size(); i-- > 0;) {
    const auto visit = [&](ValueId id) {
      if (id == no_value || live[static_cast<std::size_t>(id)]) return;
      live[static_cast<std::size_t>(id)] = true;
      dying[i].push_back(id);
    };
    std::ranges::for_each(function.ops[i].operands, visit);
    std::ranges::for_each(function.ops[i].results, visit);
  }
  return dying;
}

namespace {

Results run_function(const Graph& graph, const GraphFunction& function, const std::vector<Array>& inputs,
                     const EvaluateOptions& options) {
  std::vector<Array> values(function.values.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) values[static_cast<std::size_t>(function.inputs[i])] = inputs[i];
  const std::vector<std::vector<ValueId>> dying = last_uses(function);
  for (std::size_t i = 0; i < function.ops.size(); ++i) {
    if (options.cancel != nullptr) options.cancel->poll();
    const Op& op = function.ops[i];
    std::vector<Array> operands;
    for (const ValueId id : op.operands)
      operands.push_back(id == no_value ? Array() : values[static_cast<std::size_t>(id)]);
    const Results results =
        naming("operation \"" + op.name + "\"", [&] { return run_op(graph, function, op, operands, options); });
    if (options.observe) options.observe(function, op, results);
    for (std::size_t r = 0; r < op.results.size(); ++r) values[static_cast<std::size_t>(op.results[r])] = results[r];
    for (const ValueId id : dying[i]) values[static_cast<std::size_t>(id)] = Array();
  }
  Results outputs;
  for (const ValueId output : function.outputs) outputs.push_back(values[static_cast<std::size_t>(output)]);
  return outputs;
}

}  // namespace

void check_inputs(const GraphFunction& function, const std::vector<Array>& inputs) {
  if (inputs.size() != function.inputs.size()) {
    throw UserError({"wrong number of inputs",
                     "function \"" + function.name + "\"",
                     std::to_string(inputs.size()),
                     std::to_string(function.inputs.size()),
                     {}});
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Value& value = function.value(function.inputs[i]);
    const TensorType given{inputs[i].dtype(), inputs[i].shape()};
    if (given == value.type) continue;
    throw UserError(
        {given.dtype != value.type.dtype ? "An input has the wrong dtype." : "An input has the wrong shape.",
         "input \"" + value.name + "\" of function \"" + function.name + "\"",
         to_string(given),
         to_string(value.type),
         {}});
  }
}

void own_outputs(const Graph& graph, const std::vector<Array>& inputs, std::vector<Array>& outputs) {
  std::set<const std::byte*> taken;
  for (const Array& input : inputs) taken.insert(input.bytes());
  for (const auto& [name, weight] : graph.weights) taken.insert(weight.data.bytes());
  for (Array& output : outputs) {
    if (!taken.insert(output.bytes()).second) output = output.clone();
  }
}

/// Operations inside are not observed: they run any number of times.
Results run_callee(const Call& call, std::size_t index, const std::vector<Array>& inputs) {
  EvaluateOptions silent = call.options;
  silent.observe = nullptr;
  const std::int32_t callee = call.op.functions[index];
  return run_function(call.graph, call.graph.functions[static_cast<std::size_t>(callee)], inputs, silent);
}

void Call::fail(const std::string& what, const std::string& value, const std::string& allowed) const {
  throw UserError({what, place_of(function, op), value, allowed, {}});
}

void Call::unsupported(const std::string& what) const {
  throw Unsupported({"No reference implementation for " + what + ".",
                     place_of(function, op),
                     std::string(info(op.kind).name),
                     {},
                     {}});
}

Compute compute_type(const Call& call, DType dtype) {
  if (dtype == DType::f64) return Compute::f64;
  if (is_float(dtype)) return Compute::f32;
  if (dtype_class(dtype) == DTypeClass::complex) call.unsupported(std::string(name(dtype)) + " arithmetic");
  return Compute::i64;
}

}  // namespace kernels

std::vector<Array> evaluate_op(const Graph& graph, const GraphFunction& function, const Op& op,
                               const std::vector<Array>& operands, const Numerics& numerics) {
  EvaluateOptions options;
  options.numerics = numerics;
  options.cancel = CancelScope::current();
  return kernels::run_op(graph, function, op, operands, options);
}

std::vector<Array> evaluate(const Graph& graph, const std::vector<Array>& inputs, const EvaluateOptions& options) {
  const GraphFunction& entry = graph.entry();
  kernels::check_inputs(entry, inputs);
  std::vector<Array> outputs = kernels::run_function(graph, entry, inputs, options);
  kernels::own_outputs(graph, inputs, outputs);
  return outputs;
}

bool has_kernel(Kind kind) { return kind == Kind::call || kind == Kind::fused || kernels::kernel_of(kind) != nullptr; }

}  // namespace tilesim
