// The mapping problem of a product, and which nest on which unit solves it.
#include "tilesim/compile/product/product.hpp"

#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/mapping/identity.hpp"
#include "tilesim/mapping/space.hpp"

namespace tilesim::lower {

namespace {

/// Sums that are kept in i32 wrap around while they are summed as well as at the end.
DType accumulator_dtype(DType dtype, DType result, const Numerics& numerics) {
  if (is_float(dtype)) return dtype == DType::f64 ? DType::f64 : numerics.accumulate;
  return bits(dtype) >= 32 && result != DType::i32 ? DType::i64 : DType::i32;
}

/// Sorts the domain's dims into rows (only a), columns (only b), contraction (both, reduced) and batch (both, kept).
void classify(mapping::Problem& problem) {
  const auto uses = [](const Access& access, int dim) {
    for (const AxisAccess& axis : access.axes)
      for (const AxisAccess::Term& term : axis.terms)
        if (term.dim == dim) return true;
    return false;
  };
  for (int dim = 0; dim < static_cast<int>(problem.domain.extents.size()); ++dim) {
    const bool a = uses(problem.domain.operands[0], dim), b = uses(problem.domain.operands[1], dim);
    if (problem.domain.reduction[static_cast<std::size_t>(dim)])
      problem.k_dims.push_back(dim);
    else if (a && b)
      problem.batch_dims.push_back(dim);
    else if (b)
      problem.n_dims.push_back(dim);
    else
      problem.m_dims.push_back(dim);
  }
}

/// The contraction dim that lies innermost in the array: the one with unit coefficient alone on an axis (channels),
/// last.
void order_contraction(mapping::Problem& problem) {
  const auto alone = [&](int dim) {
    for (const AxisAccess& axis : problem.domain.operands[0].axes)
      if (axis.terms.size() == 1 && axis.terms[0].dim == dim) return true;
    return false;
  };
  std::stable_partition(problem.k_dims.begin(), problem.k_dims.end(), [&](int dim) { return !alone(dim); });
}

std::vector<int> layout_of(const Context& context, ValueId value) {
  const Placement& placement = context.placements[static_cast<std::size_t>(value)];
  const program::Tensor* tensor = find_tensor(context, placement.tensor);
  return tensor && placement.identity ? tensor->minor_to_major : std::vector<int>{};
}

}  // namespace

std::set<ValueId> leaves_of(const Context& context, const Kernel& kernel, std::vector<ValueId> pending) {
  const ValueId product = context.function.ops[static_cast<std::size_t>(kernel.anchor)].results[0];
  std::set<ValueId> leaves, seen;
  while (!pending.empty()) {
    const ValueId value = pending.back();
    pending.pop_back();
    if (value == no_value || value == product || context.scalars.count(value) || !seen.insert(value).second) continue;
    const auto producer = std::find_if(kernel.ops.begin(), kernel.ops.end(), [&](int op) {
      return op != kernel.anchor && context.function.ops[static_cast<std::size_t>(op)].results[0] == value;
    });
    if (producer == kernel.ops.end()) {
      leaves.insert(value);
      continue;
    }
    for (ValueId operand : context.function.ops[static_cast<std::size_t>(*producer)].operands)
      pending.push_back(operand);
  }
  return leaves;
}

mapping::Problem product_problem(const Context& context, const Kernel& kernel) {
  const Op& op = context.function.ops[static_cast<std::size_t>(kernel.anchor)];
  mapping::Problem problem;
  problem.operation = op.name;
  problem.contexts = context.contexts;
  problem.domain = domain(context.function, op);
  const Numerics& numerics = context.machine.core.array.numerics;
  for (int i = 0; i < 2; ++i) {
    const ValueId value = op.operands[static_cast<std::size_t>(i)];
    const TensorType& type = context.value(value).type;
    const bool placed = context.placed(value);
    problem.dtypes.push_back(placed ? context.placements[static_cast<std::size_t>(value)].dtype : type.dtype);
    problem.memory_dtypes.push_back(problem.dtypes.back());
    problem.shapes.push_back(type.shape);
    problem.minor_to_major.push_back(placed ? layout_of(context, value) : std::vector<int>{});
    if (placed && context.placements[static_cast<std::size_t>(value)].identity && context.machine.layout.tile.empty())
      problem.burst_bytes[i] = context.machine.memory.burst_bytes;
  }
  const TensorType& result = context.value(op.results[0]).type;
  const Numerics& summed = is_exact(op) ? exact_numerics() : numerics;
  problem.dtypes.push_back(accumulator_dtype(context.value(op.operands[0]).type.dtype, result.dtype, summed));
  problem.memory_dtypes.push_back(result.dtype);
  problem.shapes.push_back(result.shape);
  const ValueId stored = kernel.outputs.empty() ? op.results[0] : kernel.outputs[0];
  problem.minor_to_major.push_back(context.placed(stored) ? layout_of(context, stored) : std::vector<int>{});
  classify(problem);
  order_contraction(problem);
  std::int64_t extra = 0;
  const std::size_t elements = static_cast<std::size_t>(std::max<std::int64_t>(1, element_count(result.shape)));
  const std::int64_t broadcast_limit = context.machine.core.scratchpad.bytes / 32;
  std::set<ValueId> counted{op.operands[0], op.operands[1]};
  for (std::size_t i = 0; i < 2; ++i) {
    if (context.placed(op.operands[i])) continue;
    problem.computed[i] = true;
    for (ValueId leaf : leaves_of(context, kernel, {op.operands[i]})) {  // a prologue's: rings of two
      counted.insert(leaf);
      const TensorType& type = context.value(leaf).type;
      if (element_count(type.shape) == element_count(problem.shapes[i]))
        problem.prologue_bytes_per_element[i] += 2 * host_bytes(type.dtype);
      else
        problem.extra_bytes +=
            2 * std::min(round_up(element_count(type.shape) * host_bytes(type.dtype), 64), broadcast_limit);
    }
  }
  for (ValueId input : kernel.inputs) {
    if (counted.count(input)) continue;
    const TensorType& type = context.value(input).type;
    if (static_cast<std::size_t>(element_count(type.shape)) == elements)
      extra += 2 * host_bytes(type.dtype);
    else
      problem.extra_bytes +=
          2 * std::min(round_up(element_count(type.shape) * host_bytes(type.dtype), 64), broadcast_limit);
  }
  const bool converts = kernel.ops.size() > 1 || result.dtype != problem.dtypes[2] || op.operands.size() > 2;
  for (ValueId output : kernel.outputs) extra += converts ? 2 * host_bytes(context.value(output).type.dtype) : 0;
  problem.extra_bytes_per_result_element = extra;
  for (int index : kernel.ops) {
    const Op& fused = context.function.ops[static_cast<std::size_t>(index)];
    problem.kernel += (problem.kernel.empty() ? "" : "+") + std::string(info(fused.kind).name);
    if (fused.kind == Kind::elementwise) problem.kernel += ":" + fused.attributes.text("function");
  }
  for (ValueId input : kernel.inputs) problem.kernel += " " + tilesim::to_string(context.value(input).type);
  if (converts)
    problem.epilogue_functions = static_cast<std::int64_t>(kernel.ops.size()) - (kernel.ops.size() > 1 ? 1 : 0) +
                                 (op.operands.size() > 2 ? 1 : 0);
  problem.extra_bytes +=
      64 * static_cast<std::int64_t>(2 * kernel.outputs.size() + 2);  // slots start at multiples of 64
  return problem;
}

namespace {

mapping::Nest array_nest(const Context& context, const mapping::Problem& problem, const Machine& machine,
                         bool convolution, Effort effort) {
  if (mapping_rule(context) == "profile")
    if (auto nest = profile_nest(machine, problem, convolution)) return *nest;
  return nest_by_rule(context, problem, machine, effort);
}

[[noreturn]] void refuse_dtype(const Context& context, const Op& op, DType dtype) {
  std::vector<std::string> allowed;
  std::string real;
  for (const auto& [known, rate] : context.machine.core.array.rates) {
    if (rate <= 0) continue;
    allowed.emplace_back(name(known));
    if (is_float(known)) real = name(known);
  }
  const std::string remedy =
      real.empty() ? "These arrays need quantized operands: convert them (x.convert), or read a model that "
                     "is quantized already"
                   : "Build the workload with another dtype (dtype='" + real + "', --dtype " + real +
                         "), or convert the operands (x.convert)";
  throw Unsupported({"the arrays of " + context.machine.name + " do not multiply this type", op.name,
                     std::string(name(dtype)), join(allowed), remedy});
}

bool multiplies(const Machine& machine, DType dtype) {
  const auto rate = machine.core.array.rates.find(dtype);
  return machine.core.array.count > 0 && rate != machine.core.array.rates.end() && rate->second > 0;
}

/// Whether an array multiplies operands as they are and sums in f32 or wider.
bool multiplies_exactly(const Machine& machine, DType dtype) {
  const Numerics& numerics = machine.core.array.numerics;
  return multiplies(machine, dtype) && !rounds_operands(numerics, dtype) &&
         !(numerics.multiply_tf32 && dtype == DType::f32) &&
         unit_roundoff(numerics.accumulate) <= unit_roundoff(DType::f32);
}

}  // namespace

const std::string& mapping_rule(const Context& context) {
  static const std::string searched = "cost";
  const Json& lowering = context.machine.lowering;
  const bool own = !lowering.is_null() && (lowering.find("product") || lowering.find("convolution"));
  return context.options.mapping == "profile" && !own ? searched : context.options.mapping;
}

mapping::Nest nest_by_rule(const Context& context, const mapping::Problem& problem, const Machine& machine,
                           Effort effort, std::string rule) {
  if (rule.empty()) rule = mapping_rule(context);
  if (!context.machine.sorts.empty()) effort = Effort::rough;  // the search's nests fit one sort of cores only
  if (effort == Effort::rough && (rule == "cost" || rule == "profile")) rule = "heuristic";
  std::string key = rule + " " + mapping::identity(machine) + " " + mapping::identity(problem);
  if (const auto known = context.choices.nests.find(key); known != context.choices.nests.end()) return known->second;
  return context.choices.nests[std::move(key)] = mapping::by_strategy(rule, problem, machine);
}

void require_array(const Context& context, const Op& op, DType dtype) {
  if (context.machine.core.array.count == 0)
    throw Unsupported({"products need an array, and " + context.machine.name + " has none", op.name, {}, {}, {}});
  if (!multiplies(context.machine, dtype)) refuse_dtype(context, op, dtype);
}

mapping::Nest product_nest(const Context& context, const Kernel& kernel, mapping::Problem& problem,
                           const Machine& machine, Effort effort) {
  const Op& op = context.function.ops[static_cast<std::size_t>(kernel.anchor)];
  const DType multiplied = problem.dtypes[0];
  if (const auto given = context.options.mappings.find(op.name); given != context.options.mappings.end()) {
    problem.on_vector = given->second.on_vector;
    const mapping::Legality verdict = mapping::legal(problem, given->second, context.machine);
    if (!verdict.legal)
      throw UserError({"the mapping given for this operation is not legal: " + verdict.reason, op.name, {}, {}, {}});
    if (problem.on_vector)
      check_vector_dtypes(context, {kernel.anchor});
    else
      require_array(context, op, multiplied);
    return given->second;
  }
  const bool exact = is_exact(op) && is_float(multiplied);
  const bool on_array =
      exact ? multiplies_exactly(context.machine, multiplied) : multiplies(context.machine, multiplied);
  const bool grouped = op.kind == Kind::convolution && !problem.batch_dims.empty();
  const bool integers = is_integer(multiplied) && is_integer(problem.dtypes[1]) && !on_array;
  if (!grouped && !integers && !exact) {
    require_array(context, op, multiplied);
    return array_nest(context, problem, machine, op.kind == Kind::convolution, effort);
  }
  mapping::Problem other = problem;
  other.on_vector = true;
  const mapping::Nest nest = nest_by_rule(context, other, machine, effort);
  if (on_array) {
    const mapping::Nest alternative = array_nest(context, problem, machine, true, effort);
    if (mapping::estimated_cycles(problem, alternative, machine) <= mapping::estimated_cycles(other, nest, machine))
      return alternative;
  }
  check_vector_dtypes(context, {kernel.anchor});
  problem.on_vector = true;
  return nest;
}

}  // namespace tilesim::lower
