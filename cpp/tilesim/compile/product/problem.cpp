// The mapping problem of a product, and the choice of unit and nest.
#include "tilesim/compile/layouts/wishes.hpp"
#include "tilesim/compile/plan/cannot_run.hpp"
#include "tilesim/compile/product/product.hpp"

#include <algorithm>
#include <cmath>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/graph/patterns/recognition.hpp"
#include "tilesim/mapping/identity.hpp"
#include "tilesim/mapping/space.hpp"

namespace tilesim::lower {

namespace {

/// i32 sums wrap around at every addition, as the result does.
DType accumulator_dtype(DType dtype, DType result, const Numerics& numerics) {
  if (is_float(dtype)) return dtype == DType::f64 ? DType::f64 : numerics.accumulate;
  return bits(dtype) >= 32 && result != DType::i32 ? DType::i64 : DType::i32;
}

/// Classifies the dims: rows (only in a), columns (only in b), contraction (both, reduced) or batch (both, kept).
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

/// Moves contraction dims that are the only term of an axis (channels) to the end: the last dim is innermost in the
/// array.
void order_contraction(mapping::Problem& problem) {
  const auto alone = [&](int dim) {
    for (const AxisAccess& axis : problem.domain.operands[0].axes)
      if (axis.terms.size() == 1 && axis.terms[0].dim == dim) return true;
    return false;
  };
  std::stable_partition(problem.k_dims.begin(), problem.k_dims.end(), [&](int dim) { return !alone(dim); });
}

}  // namespace

/// Axes of a value in memory order, minor first: those of its tensor; for a view the axes that move along them, short
/// strides first, each at its shortest stride. Empty: row-major, or a view whose bytes no axis order describes.
std::vector<int> layout_of(const Context& context, ValueId value) {
  const Placement& placement = context.placements[static_cast<std::size_t>(value)];
  const program::Tensor* tensor = find_tensor(context, placement.tensor);
  if (!tensor) return {};
  const Shape& shape = context.value(value).type.shape;
  if (placement.identity && tensor->tile.empty() && tensor->minor_to_major.empty())
    return unit_axes_major(shape);  // dense: unit axes take no space
  if (placement.identity) return tensor->minor_to_major;
  const std::size_t rank = placement.axes.size();
  std::vector<int> order, known(shape.size(), 0);
  for (std::size_t i = 0; i < rank; ++i) {
    const std::size_t axis =
        tensor->minor_to_major.size() == rank ? static_cast<std::size_t>(tensor->minor_to_major[i]) : rank - 1 - i;
    std::vector<AxisAccess::Term> terms = placement.axes[axis].terms;
    std::erase_if(terms, [&](const AxisAccess::Term& term) { return shape[static_cast<std::size_t>(term.dim)] < 2; });
    if (terms.size() > 1 && !context.machine.layout.tile.empty()) return {};  // rows of lanes mix both axes
    std::ranges::stable_sort(terms, {}, [](const AxisAccess::Term& term) { return std::abs(term.coefficient); });
    for (const AxisAccess::Term& term : terms) {
      if (known[static_cast<std::size_t>(term.dim)]++ == 0) order.push_back(term.dim);  // else not contiguous
    }
  }
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    if (known[dim] == 0 && shape[dim] > 1) return {};
    if (known[dim] == 0) order.push_back(static_cast<int>(dim));
  }
  return order;
}

std::set<ValueId> leaves_of(const Context& context, const Kernel& kernel, std::vector<ValueId> pending) {
  std::set<ValueId> leaves, seen;
  for (int product : kernel.products()) seen.insert(context.function.ops[static_cast<std::size_t>(product)].results[0]);
  while (!pending.empty()) {
    const ValueId value = pending.back();
    pending.pop_back();
    if (value == no_value || context.scalars.count(value) || !seen.insert(value).second) continue;
    const auto producer = std::find_if(kernel.ops.begin(), kernel.ops.end(), [&](int op) {
      return !kernel.multiplies(op) && context.function.ops[static_cast<std::size_t>(op)].results[0] == value;
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

bool has_bias(const Op& anchor) {
  return anchor.kind != Kind::ragged_contract && anchor.operands.size() > 2 && anchor.operands[2] != no_value;
}

bool stores_sums(const Context& context, const Kernel& kernel, DType sums) {
  const std::vector<int> products = kernel.products();
  return kernel.outputs.size() == products.size() && std::ranges::all_of(products, [&](int product) {
           const Op& op = context.function.ops[static_cast<std::size_t>(product)];
           return std::ranges::count(kernel.outputs, op.results[0]) > 0 && !has_bias(op) &&
                  context.placements[static_cast<std::size_t>(op.results[0])].dtype == sums;
         });
}

const Op* reduction_of(const Context& context, const Kernel& kernel, ValueId value) {
  for (int index : kernel.ops) {
    const Op& op = context.function.ops[static_cast<std::size_t>(index)];
    if (op.kind == Kind::reduce && op.results[0] == value) return &op;
  }
  return nullptr;
}

std::vector<LeafSource> leaf_sources(const Context& context, const Kernel& kernel, DType sums) {
  const Op& anchor = context.function.ops[static_cast<std::size_t>(kernel.anchor)];
  std::vector<LeafSource> leaves;
  const auto add = [&](ValueId value, std::size_t of, std::size_t rank) {
    LeafSource leaf{value, of, {}};
    const std::size_t own = context.value(value).type.shape.size();
    for (std::size_t axis = 0; axis < own; ++axis)  // numpy alignment: trailing axes match
      leaf.axis_of.push_back(static_cast<int>(axis + rank - own));
    leaves.push_back(std::move(leaf));
  };
  for (std::size_t operand = 0; operand < 2; ++operand)
    if (const ValueId value = anchor.operands[operand]; !context.placed(value))
      for (ValueId leaf : leaves_of(context, kernel, {value}))
        add(leaf, operand, context.value(value).type.shape.size());
  if (stores_sums(context, kernel, sums)) return leaves;
  const std::size_t rank = context.value(anchor.results[0]).type.shape.size();
  for (int product : kernel.products()) {
    const Op& own = context.function.ops[static_cast<std::size_t>(product)];
    if (!has_bias(own)) continue;
    add(own.operands[2], 2, rank);
    if (own.kind == Kind::convolution)
      leaves.back().axis_of = {static_cast<int>(own.attributes.text("y_labels").find('C'))};
    leaves.back().bias_of = product;
  }
  for (ValueId leaf : leaves_of(context, kernel, kernel.outputs)) add(leaf, 2, rank);
  return leaves;
}

namespace {

/// Cycles per register relative to a simple operation. 1 for chips with a fitted profile, which counts operations.
std::int64_t weight_of(const Context& context, const Op& op) {
  if (context.machine.whole.lowering.fusion || op.kind != Kind::elementwise) return 1;
  const VectorSpec& unit = context.machine.core.vector;
  const auto in_simple = [&](double cycles) {
    return std::max<std::int64_t>(1, std::llround(cycles / std::max(unit.simple, 1e-9)));
  };
  switch (info(parse_function(op.attributes.text("function"))).flop_class) {
    case FlopClass::multiply:
      return in_simple(unit.multiply);
    case FlopClass::divide:
      return in_simple(unit.divide);
    case FlopClass::transcendental:
      return in_simple(unit.transcendental);
    default:
      return 1;
  }
}

/// Weighted number of the kernel's operations that compute a value.
std::int64_t operations_behind(const Context& context, const Kernel& kernel, ValueId value) {
  std::set<ValueId> wanted{value};
  std::int64_t count = 0;
  for (auto index = kernel.ops.rbegin(); index != kernel.ops.rend(); ++index) {
    const Op& op = context.function.ops[static_cast<std::size_t>(*index)];
    if (kernel.multiplies(*index) || !wanted.count(op.results[0])) continue;
    count += weight_of(context, op);
    wanted.insert(op.operands.begin(), op.operands.end());
  }
  return count;
}

/// Number of functions that zero a computed operand beyond its edges: per axis position, clamp, comparison, select.
std::int64_t functions_at_edges(const Access& operand) {
  return 4 * std::ranges::count_if(operand.axes, [](const AxisAccess& axis) { return axis.may_leave; });
}

}  // namespace

void add_vector_parts(mapping::Problem& problem, const Context& context, const Kernel& kernel) {
  const Op& anchor = context.function.ops[static_cast<std::size_t>(kernel.anchor)];
  std::int64_t others = 0;
  for (int op : kernel.ops)
    if (!kernel.multiplies(op)) others += weight_of(context, context.function.ops[static_cast<std::size_t>(op)]);
  for (std::size_t operand = 0; operand < 2; ++operand) {
    if (context.placed(anchor.operands[operand])) continue;
    problem.computed[operand] = true;
    problem.prologue_functions[operand] = operations_behind(context, kernel, anchor.operands[operand]);
    others -= problem.prologue_functions[operand];
    if (!context.machine.whole.lowering.fusion)
      problem.prologue_functions[operand] += functions_at_edges(problem.domain.operands[operand]);
  }
  const Access finished = mapping::finished_access(problem);
  for (const LeafSource& source : leaf_sources(context, kernel, problem.dtypes[2])) {
    const Access& access = source.of < 2 ? problem.domain.operands[source.of] : finished;
    mapping::Problem::Leaf leaf;
    leaf.of = source.of;
    leaf.shape = context.value(source.value).type.shape;
    leaf.dtype = context.placements[static_cast<std::size_t>(source.value)].dtype;
    leaf.minor_to_major = layout_of(context, source.value);
    for (std::size_t axis = 0; axis < leaf.shape.size(); ++axis)
      leaf.access.axes.push_back(leaf.shape[axis] > 1 ? access.axes[static_cast<std::size_t>(source.axis_of[axis])]
                                                      : AxisAccess{});
    problem.leaves.push_back(std::move(leaf));
  }
  if (stores_sums(context, kernel, problem.dtypes[2])) return;
  for (ValueId value : kernel.outputs) {
    mapping::Problem::Output output;
    output.dtype = context.placements[static_cast<std::size_t>(value)].dtype;
    output.shape = context.value(value).type.shape;
    output.minor_to_major = layout_of(context, value);
    if (const Op* reduce = reduction_of(context, kernel, value))
      for (std::int64_t dim : reduce->attributes.integers("dims")) output.reduced.push_back(static_cast<int>(dim));
    const std::vector<AxisAccess>& axes = finished.axes;
    const bool keeps = output.shape.size() == axes.size();
    for (std::size_t axis = 0; axis < axes.size(); ++axis) {
      const bool reduced = std::count(output.reduced.begin(), output.reduced.end(), static_cast<int>(axis)) > 0;
      if (!reduced || keeps) output.access.axes.push_back(reduced ? AxisAccess{} : axes[axis]);
    }
    problem.outputs.push_back(std::move(output));
  }
  problem.epilogue_functions = std::max<std::int64_t>(std::ssize(kernel.products()), others);
  for (int product : kernel.products())
    problem.epilogue_functions += has_bias(context.function.ops[static_cast<std::size_t>(product)]) ? 1 : 0;
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
  if (!kernel.parts.empty()) add_siblings(problem, std::ssize(kernel.parts));
  for (int index : kernel.ops) {
    const Op& fused = context.function.ops[static_cast<std::size_t>(index)];
    problem.kernel += (problem.kernel.empty() ? "" : "+") + std::string(info(fused.kind).name);
    if (fused.kind == Kind::elementwise) problem.kernel += ":" + fused.attributes.text("function");
  }
  for (ValueId input : kernel.inputs) problem.kernel += " " + tilesim::to_string(context.value(input).type);
  add_vector_parts(problem, context, kernel);
  return problem;
}

namespace {

mapping::Nest array_nest(const Context& context, const mapping::Problem& problem, const Share& machine,
                         bool convolution, Effort effort) {
  if (mapping_rule(context) == "profile")
    if (auto nest = mapping::profile_nest(machine, problem, convolution)) return *nest;
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
      real.empty() ? "These arrays need quantized operands: quantize the workload (ts.quantize(graph, 'i8'), "
                     "--quantize i8), or read a model that is quantized already"
                   : "Build the workload with another dtype (dtype='" + real + "', --dtype " + real +
                         "), or convert the operands (x.convert, in PyTorch module.to(dtype))";
  const recognition::Reader reader(context.graph, context.function);
  if (const auto sums = recognition::long_integer_sums(reader, op); sums && real.empty())
    throw CannotRun(
        op, Lack::dtype,
        {"sums of this product of quantized numbers may not fit i32: it cannot run as a product of integers", op.name,
         std::to_string(sums->terms) + " terms", "up to " + std::to_string(sums->most) + " terms",
         "Divide the contraction (split the operands, add the parts)"});
  throw CannotRun(op, Lack::dtype,
                  {"the arrays of " + context.machine.name + " do not multiply this type", op.name,
                   std::string(name(dtype)), join(allowed), remedy});
}

bool multiplies(const Share& machine, DType dtype) {
  const auto rate = machine.core.array.rates.find(dtype);
  return machine.core.array.count > 0 && rate != machine.core.array.rates.end() && rate->second > 0;
}

/// Whether an array multiplies operands unrounded and sums in f32 or wider.
bool multiplies_exactly(const Share& machine, DType dtype) {
  const Numerics& numerics = machine.core.array.numerics;
  return multiplies(machine, dtype) && !rounds_operands(numerics, dtype) &&
         !(numerics.multiply_tf32 && dtype == DType::f32) &&
         unit_roundoff(numerics.accumulate) <= unit_roundoff(DType::f32);
}

}  // namespace

const std::string& mapping_rule(const LoweringProfile& profile, const CompileOptions& options) {
  static const std::string searched = "cost";
  return options.mapping == "profile" && !profile.product && !profile.convolution ? searched : options.mapping;
}

const std::string& mapping_rule(const Context& context) {
  return mapping_rule(context.machine.whole.lowering, context.options);
}

mapping::Nest nest_by_rule(const Context& context, const mapping::Problem& problem, const Share& machine, Effort effort,
                           std::string rule) {
  if (rule.empty()) rule = mapping_rule(context);
  if (!context.machine.sorts.empty()) effort = Effort::rough;  // the search supports one core type only
  if (effort == Effort::rough && (rule == "cost" || rule == "profile")) rule = "heuristic";
  std::string key = rule + " " + mapping::identity(machine) + " " + mapping::identity(problem);
  if (const auto known = context.choices.nests.find(key); known != context.choices.nests.end()) return known->second;
  return context.choices.nests[std::move(key)] = mapping::by_strategy(rule, problem, machine);
}

void require_array(const Context& context, const Op& op, DType dtype) {
  if (context.machine.core.array.count == 0)
    throw CannotRun(op, Lack::array,
                    {"products need an array, and " + context.machine.name + " has none", op.name, {}, {}, {}});
  if (!multiplies(context.machine, dtype)) refuse_dtype(context, op, dtype);
}

mapping::Nest product_nest(const Context& context, const Kernel& kernel, mapping::Problem& problem,
                           const Share& machine, Effort effort) {
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
