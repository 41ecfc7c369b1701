#include <array>
#include <limits>

#include "tilesim/base/error.hpp"
#include "tilesim/compile/plan/cannot_run.hpp"
#include "tilesim/compile/plan/plan.hpp"

namespace tilesim::lower {

namespace {

int append(std::vector<program::VectorNodeSpec>& nodes, VectorNode node, Expr scalar = 0) {
  nodes.push_back({node, std::move(scalar)});
  return static_cast<int>(nodes.size()) - 1;
}

/// Whether a vector compute holds values of the type exactly; it rounds other types after every operation, as the
/// reference does.
bool computes_exactly(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f64 || dtype == DType::i64 || dtype == DType::boolean;
}

/// `value` saturated to a type and rounded toward zero; 2^63 or 2^64 for the largest 64-bit integers, which are not
/// doubles.
double number_as(double value, DType dtype) {
  std::array<std::byte, 16> raw{};
  double back = 0;
  convert(&value, DType::f64, raw.data(), dtype, 1, Rounding::toward_zero, Overflow::saturate);
  convert(raw.data(), dtype, &back, DType::f64, 1);
  return back;
}

struct Bounds { double low, high; };
Bounds bounds_of(DType dtype) {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  // f8e8m0fnu has only positive powers of two: it uses f32's low bound, so that negative numbers are not clamped
  const double low = number_as(-infinite, dtype == DType::f8e8m0fnu ? DType::f32 : dtype);
  return {low, number_as(infinite, dtype)};
}

/// Whether nothing saturates: booleans, and targets that represent all numbers and infinities of the source.
bool stays_within(DType source, DType target) {
  if (source == target || source == DType::boolean || target == DType::boolean) return true;
  if (is_float(source)) return target == DType::f64 || (target == DType::f32 && source != DType::f64);
  const Bounds from = bounds_of(source), to = bounds_of(target);
  return from.low >= to.low && from.high <= to.high;
}

/// Whether a float type represents the low bound, and the high bound or the number above it.
bool holds(DType source, const Bounds& to) {
  const auto exact = [&](double value) { return number_as(value, source) == value; };
  return exact(to.low) && (exact(to.high) || exact(to.high + 1));
}

/// Clamps a node to the range of the target type, then converts it.
int saturated(std::vector<program::VectorNodeSpec>& nodes, int from, DType source, DType target) {
  const Bounds to = bounds_of(target);
  const auto convert = [&](int node, DType dtype) {
    return append(nodes, {.op = VectorNode::Op::convert, .arguments = {node, -1, -1}, .dtype = dtype});
  };
  const auto number = [&](double value, DType dtype) {
    return append(nodes, {.op = VectorNode::Op::constant, .number = value, .dtype = dtype});
  };
  const auto apply = [&](Function function, std::array<int, 3> arguments, DType dtype) {
    return append(nodes,
                  {.op = VectorNode::Op::function, .function = function, .arguments = arguments, .dtype = dtype});
  };
  if (is_float(source) && source != DType::f64 && !holds(source, to)) {
    if (source != DType::f32) from = convert(from, DType::f32);
    source = DType::f32;  // f32 represents the bounds of all types of at most 32 bits
  }
  const double most = number_as(to.high, source);
  // the largest i64 is not a double; clamping to it, or to a higher bound, is not necessary
  if (source == DType::i64 && most >= 0x1p63)
    return convert(apply(Function::maximum, {from, number(to.low, source), -1}, source), target);
  const double least = is_float(source) ? to.low : number_as(to.low, source);
  const int within =
      convert(apply(Function::clamp, {number(least, source), from, number(most, source)}, source), target);
  if (most == to.high || !is_float(source)) return within;
  // The source cannot represent the largest integer: a comparison selects it for numbers beyond.
  const int beyond = apply(Function::greater_equal, {from, number(to.high + 1, source), -1}, DType::boolean);
  return apply(Function::select, {beyond, number(to.high, target), within}, target);
}

}  // namespace

void DagBuilder::bind_input(ValueId value, int input) {
  known_[value] =
      append(nodes_, {.op = VectorNode::Op::input, .index = input, .dtype = context_.value(value).type.dtype});
}

void DagBuilder::bind_node(ValueId value, int node) { known_[value] = node; }

const Op* DagBuilder::maker(ValueId value, const std::set<int>& ops) {
  if (indexed_ != &ops) {
    makers_.clear();
    for (int index : ops) makers_[context_.function.ops[static_cast<std::size_t>(index)].results[0]] = index;
    indexed_ = &ops;
  }
  const auto found = makers_.find(value);
  return found == makers_.end() ? nullptr : &context_.function.ops[static_cast<std::size_t>(found->second)];
}

/// Visits operands first, without recursion, because models may have long chains.
int DagBuilder::node_of(ValueId value, const std::set<int>& ops) {
  std::vector<ValueId> pending{value};
  while (!pending.empty()) {
    const ValueId next = pending.back();
    if (known_.count(next)) {
      pending.pop_back();
      continue;
    }
    const TensorType& type = context_.value(next).type;
    if (const auto counter = context_.counters.find(next); counter != context_.counters.end()) {
      known_[next] = append(nodes_, {.op = VectorNode::Op::scalar, .dtype = type.dtype}, counter->second);
      continue;
    }
    if (const auto scalar = context_.scalars.find(next); scalar != context_.scalars.end()) {
      known_[next] = append(nodes_, {.op = VectorNode::Op::constant, .number = scalar->second, .dtype = type.dtype});
      continue;
    }
    const Op* op = maker(next, ops);
    require(op != nullptr, "a value of a vector compute is neither an input nor computed in the kernel");
    const std::size_t before = pending.size();
    if (op->kind != Kind::iota)
      for (std::size_t i = op->operands.size(); i-- > 0;)
        if (!known_.count(op->operands[i])) pending.push_back(op->operands[i]);
    if (pending.size() == before) known_[next] = node_of_op(*op, type);
  }
  return known_.at(value);
}

int DagBuilder::node_of_op(const Op& op, const TensorType& type) {
  int node = -1;
  if (op.kind == Kind::iota) {
    const auto dim = static_cast<std::size_t>(op.attributes.integer("dim"));
    if (type.shape[dim] == 1)  // the only index is 0, even if the kernel's axis is longer
      return append(nodes_, {.op = VectorNode::Op::constant, .number = 0, .dtype = type.dtype});
    const std::size_t axis = dim + axis_dim.size() - type.shape.size();
    node = append(nodes_, {.op = VectorNode::Op::iota, .index = axis_dim[axis], .dtype = DType::i64});
    if (!(axis_start[axis] == Expr(0))) {
      const int start = append(nodes_, {.op = VectorNode::Op::scalar, .dtype = DType::i64}, axis_start[axis]);
      node = append(nodes_, {.op = VectorNode::Op::function,
                             .function = Function::add,
                             .arguments = {node, start, -1},
                             .dtype = DType::i64});
    }
    if (type.dtype != DType::i64)
      node = append(nodes_, {.op = VectorNode::Op::convert, .arguments = {node, -1, -1}, .dtype = type.dtype});
    return node;
  }
  if (op.kind == Kind::convert) return converted(op, known_.at(op.operands[0]));
  require(op.kind == Kind::elementwise,
          "only elementwise operations, conversions and indices form a vector compute's DAG");
  VectorNode function{
      .op = VectorNode::Op::function, .function = parse_function(op.attributes.text("function")), .dtype = type.dtype};
  if (function.function == Function::bitwise_not && type.dtype == DType::boolean)
    function.function = Function::logical_not;
  for (std::size_t i = 0; i < op.operands.size(); ++i) function.arguments[i] = known_.at(op.operands[i]);
  node = append(nodes_, function);
  if (!computes_exactly(type.dtype))
    node = append(nodes_, {.op = VectorNode::Op::convert, .arguments = {node, -1, -1}, .dtype = type.dtype});
  return node;
}

int DagBuilder::converted(const Op& op, int from) {
  const DType source = context_.value(op.operands[0]).type.dtype, target = context_.value(op.results[0]).type.dtype;
  const auto convert = [&](int node) {
    return append(nodes_, {.op = VectorNode::Op::convert, .arguments = {node, -1, -1}, .dtype = target});
  };
  // Conversions to integers truncate with either rounding.
  if (op.attributes.text("rounding", "nearest_even") != "nearest_even" && !is_integer(target))
    throw CannotRun(op, Lack::conversion,
                    {"the vector unit converts with nearest-even rounding only", op.name, {}, {}, {}});
  if (op.attributes.text("overflow", "ieee") == "ieee" || stays_within(source, target)) return convert(from);
  if (bits(target) > 32 && (is_float(source) || source == DType::u64))
    throw CannotRun(op, Lack::conversion,
                    {"the vector unit has no such saturating conversion",
                     op.name,
                     std::string(name(source)) + " to " + std::string(name(target)),
                     {},
                     {}});
  return saturated(nodes_, from, source, target);
}

}  // namespace tilesim::lower
